"""Figure: agreement of measures."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.plots.atlas import agreement
from headspec.plots.drawing.style import save
from headspec.progress import stage

wildcards, params = snakemake.wildcards, snakemake.params
RUN = "model == @wildcards.model and mixture == @wildcards.mixture and method == @wildcards.method"
with stage(snakemake.log[0], "figure atlas_agreement"):
    figure = agreement.draw(tables.read(snakemake.input.agreement).query(RUN))
    save(figure, snakemake.output, params.dpi, tables.record(snakemake))
