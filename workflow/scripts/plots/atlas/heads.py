"""Figure: roles and importance of heads."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.plots.atlas import heads
from headspec.plots.atlas.measures import of_run
from headspec.plots.drawing.style import save
from headspec.progress import stage

wildcards, params = snakemake.wildcards, snakemake.params
with stage(snakemake, "figure atlas_heads"):
    inputs = {name: of_run(tables.read(path), wildcards) for name, path in snakemake.input.items()}
    figure = heads.draw(**inputs, tasks=params.tasks)
    save(figure, snakemake.output, params.dpi, tables.record(snakemake))
