"""Prune one run: model, importance and encoded validation sets -> metrics and predictions under masks."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import devices, tables
from headspec.batching import Examples
from headspec.maps import importance_map
from headspec.masks import masks
from headspec.multitask import MultiTask
from headspec.progress import stage
from headspec.pruning import PREDICTIONS, PRUNING, predictions, predictions_table, pruning_table

wildcards, params = snakemake.wildcards, snakemake.params
with stage(snakemake.log[0], "prune {model}/{mixture}/{method}/seed{seed}".format(**wildcards)):
    device = devices.prepare(params.precision, snakemake.threads, snakemake.resources.parts)
    seed, pruning = int(wildcards.seed), params.pruning
    model = MultiTask.load(Path(snakemake.input.model).parent)
    examples = {
        t: Examples(tables.read(p)) for t, p in zip(params.metrics, snakemake.input.encoded, strict=True)
    }
    importance = tables.read(snakemake.input.importance)
    maps = {task: importance_map(importance, task) for task in examples}
    planned = masks(maps, pruning["fraction"], pruning["fractions"], pruning["draws"], seed)
    found = predictions(model, examples, planned, device, pruning["draw_examples"], seed)
    footer = tables.provenance(snakemake, device=device.name, precision=device.precision, seed=seed)
    frame = pruning_table(planned, examples, found, params.metrics)
    tables.write(snakemake.output.pruning, PRUNING, frame, footer)
    frame = predictions_table(planned, examples, found)
    tables.write(snakemake.output.predictions, PREDICTIONS, frame, footer)
