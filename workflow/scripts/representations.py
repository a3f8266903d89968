"""Vectors of texts by the single-task model of every task: models and encoded texts -> table of vectors."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import devices, tables
from headspec.batching import Examples
from headspec.multitask import MultiTask
from headspec.progress import stage
from headspec.representations import REPRESENTATIONS, of_tasks

wildcards, params = snakemake.wildcards, snakemake.params
with stage(snakemake.log[0], "representations {model}/{texts}/seed{seed}".format(**wildcards)):
    device = devices.prepare(params.precision, snakemake.threads, snakemake.resources.parts)
    texts = Examples(tables.read(snakemake.input.encoded))
    folders = {t: Path(p).parent for t, p in zip(params.tasks, snakemake.input.models, strict=True)}
    models = ((task, MultiTask.load(folder)) for task, folder in folders.items())
    frame = of_tasks(models, len(folders), texts, device)
    footer = tables.provenance(
        snakemake, device=device.name, precision=device.precision, seed=int(wildcards.seed)
    )
    tables.write(snakemake.output[0], REPRESENTATIONS, frame, footer)
