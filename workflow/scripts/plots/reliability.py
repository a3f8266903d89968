"""Figure: reliability."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.plots import reliability
from headspec.plots.drawing.style import save
from headspec.progress import stage

params = snakemake.params
with stage(snakemake, "figure reliability"):
    figure = reliability.draw(tables.read(snakemake.input[0]))
    save(figure, snakemake.output, params.dpi, tables.record(snakemake))
