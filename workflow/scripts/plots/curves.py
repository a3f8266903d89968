"""Figure: curves."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.plots import curves
from headspec.plots.drawing.style import save
from headspec.progress import stage
from headspec.statistics import metrics

params = snakemake.params
with stage(snakemake, "figure curves"):
    pruning, predictions = (
        {seed: tables.read(path) for seed, path in zip(params.seeds, paths, strict=True)}
        for paths in (snakemake.input.pruning, snakemake.input.predictions)
    )
    unpruned = predictions[params.seeds[0]].query("pruned_for == 'none'")
    chance: dict[str, float | None] = {
        str(task): metrics.chance(params.metrics[task], rows["label"])
        for task, rows in unpruned.groupby("task")
    }
    figure = curves.draw(
        pruning, predictions, params.tasks, params.fraction, params.metrics, chance, params.counted
    )
    save(figure, snakemake.output, params.dpi, tables.record(snakemake))
