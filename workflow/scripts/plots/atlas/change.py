"""Figure: measures of heads before and after."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.plots.atlas import change
from headspec.plots.drawing.style import save
from headspec.progress import stage

wildcards, params = snakemake.wildcards, snakemake.params
with stage(snakemake, "figure atlas_change"):
    table = tables.read(snakemake.input.heads).query(
        "model == @wildcards.model and mixture == @wildcards.mixture"
    )
    before, after = (table[table["method"] == method] for method in (params.before, wildcards.method))
    figure = change.draw(before, after, params.tasks, params.labels)
    save(figure, snakemake.output, params.dpi, tables.record(snakemake))
