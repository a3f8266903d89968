"""Figure: measures of heads for one task, less those for the others."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.plots.atlas import differences
from headspec.plots.atlas.measures import of_run
from headspec.plots.drawing.style import save
from headspec.progress import stage

wildcards, params = snakemake.wildcards, snakemake.params
with stage(snakemake, "figure atlas_differences"):
    figure = differences.draw(of_run(tables.read(snakemake.input[0]), wildcards), params.labels)
    save(figure, snakemake.output, params.dpi, tables.record(snakemake))
