"""Vectors of texts from all single-task models: models and tokens -> table of vectors."""

from pathlib import Path

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.models.batching import Examples
from headspec.models.internals.activations import REPRESENTATIONS, representations
from headspec.models.multitask import MultiTask
from headspec.models.stage import ModelStage
from headspec.progress import stage

snakemake: Snakemake
with stage(snakemake, "representations {model}/{texts}/seed{seed}".format(**snakemake.wildcards)):
    job = ModelStage(snakemake)
    texts = Examples(tables.read(snakemake.input.tokens))
    files = zip(snakemake.params.tasks, snakemake.input.models, strict=True)
    models = ((task, MultiTask.load(Path(file).parent)) for task, file in files)
    frame = representations(models, texts, job.device, len(snakemake.params.tasks))
    tables.write(snakemake.output[0], REPRESENTATIONS, frame, job.footer())
