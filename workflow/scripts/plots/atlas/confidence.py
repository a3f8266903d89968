"""Figure: confidence of heads."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.plots.atlas import confidence
from headspec.plots.drawing.style import save
from headspec.progress import stage

wildcards, params = snakemake.wildcards, snakemake.params
RUN = "model == @wildcards.model and mixture == @wildcards.mixture and method == @wildcards.method"
with stage(snakemake.log[0], "figure atlas_confidence"):
    figure = confidence.draw(tables.read(snakemake.input.heads).query(RUN), params.tasks)
    save(figure, snakemake.output, params.dpi, tables.record(snakemake))
