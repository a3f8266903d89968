"""Figure: transfer."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.plots import transfer
from headspec.plots.drawing.style import save
from headspec.progress import stage

wildcards, params = snakemake.wildcards, snakemake.params
with stage(snakemake, "figure transfer"):
    rows = tables.read(snakemake.input[0])
    chosen = (rows["model"] == wildcards.model) & (rows["task"] == wildcards.task)
    metric = params.metrics[wildcards.task][0]
    figure = transfer.draw(rows[chosen & (rows["metric"] == metric)], params.controls)
    save(figure, snakemake.output, params.dpi, tables.record(snakemake))
