"""Figure: which measure to believe."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.plots.atlas import believe
from headspec.plots.drawing.style import save
from headspec.progress import stage

params = snakemake.params
with stage(snakemake.log[0], "figure atlas_believe"):
    figure = believe.draw(**{name: tables.read(path) for name, path in snakemake.input.items()})
    save(figure, snakemake.output, params.dpi, tables.record(snakemake))
