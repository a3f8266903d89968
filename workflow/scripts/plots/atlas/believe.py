"""Figure: which measure to believe."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.plots.atlas import believe
from headspec.plots.drawing.style import save
from headspec.progress import stage

params = snakemake.params
with stage(snakemake, "figure atlas_believe"):
    figure = believe.draw(tables.read(snakemake.input[0]), params.labels)
    save(figure, snakemake.output, params.dpi, tables.record(snakemake))
