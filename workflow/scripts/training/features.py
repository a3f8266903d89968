"""Features of a task: tokens of its training set -> vectors from the frozen encoder."""

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.models.internals.activations import REPRESENTATIONS, representations
from headspec.models.multitask import MultiTask
from headspec.models.stage import ModelStage
from headspec.progress import stage

snakemake: Snakemake
task = snakemake.wildcards.task
with stage(snakemake, "features {model}/{task}".format(**snakemake.wildcards)):
    job = ModelStage(snakemake)
    encoder, pooling = job.pretrained()
    examples = job.examples([task], snakemake.input)[task]
    frame = representations([(task, MultiTask(encoder, pooling, {}))], examples, job.device)
    tables.write(snakemake.output[0], REPRESENTATIONS, frame, job.footer())
