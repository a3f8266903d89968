"""Figure: cumulative pruning by every ranking."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.plots.atlas import ranked
from headspec.plots.drawing.style import of_wildcards, save
from headspec.progress import stage
from headspec.statistics import metrics

wildcards, params = snakemake.wildcards, snakemake.params
with stage(snakemake, "figure atlas_ranked"):
    curves = of_wildcards(tables.read(snakemake.input.curves), wildcards)
    unpruned = tables.read(snakemake.input.cumulative).query(
        "ranking == 'random' and draw == 0 and fraction == 0"
    )
    chance: dict[str, float | None] = {
        str(task): metrics.chance(params.metrics[task], rows["label"])
        for task, rows in unpruned.groupby("task")
    }
    figure = ranked.draw(curves, params.tasks, chance, params.labels, params.places)
    save(figure, snakemake.output, params.dpi, tables.record(snakemake))
