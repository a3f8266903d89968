"""Evaluate one run: model, encoded validation sets and further splits -> predictions without pruning."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

import pandas as pd

from headspec import devices, tables
from headspec.batching import Examples
from headspec.multitask import MultiTask
from headspec.progress import stage
from headspec.pruning import EVALUATION, evaluation_table

wildcards, params = snakemake.wildcards, snakemake.params
with stage(snakemake.log[0], "evaluate {model}/{mixture}/{method}/seed{seed}".format(**wildcards)):
    device = devices.prepare(params.precision, snakemake.threads, snakemake.resources.parts)
    paths = snakemake.input.encoded
    examples = {t: Examples(tables.read(p)) for t, p in zip(params.tasks, paths, strict=True)}
    model = MultiTask.load(Path(snakemake.input.model).parent)
    frames = [evaluation_table(model, examples, device)]
    for (name, task), path in zip(params.further.items(), snakemake.input.further, strict=True):
        own = evaluation_table(model, {task: Examples(tables.read(path))}, device)
        frames.append(own.assign(task=name))
    frame = pd.concat(frames)
    footer = tables.provenance(
        snakemake, device=device.name, precision=device.precision, seed=int(wildcards.seed)
    )
    tables.write(snakemake.output[0], EVALUATION, frame, footer)
