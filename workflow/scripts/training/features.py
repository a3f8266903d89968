"""Features of a task: tokens of its training set -> vectors from the frozen encoder."""

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.models.internals.activations import REPRESENTATIONS, representations
from headspec.models.stage import ModelStage
from headspec.progress import stage

snakemake: Snakemake
task = snakemake.wildcards.task
with stage(snakemake, "features {model}/{task}".format(**snakemake.wildcards)):
    job = ModelStage(snakemake)
    examples = job.examples([task], snakemake.input)[task]
    frame = representations([(task, job.pretrained({}))], examples, job.device)
    tables.write(snakemake.output[0], REPRESENTATIONS, frame, job.footer())
