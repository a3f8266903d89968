"""Figure: roles and importance of heads."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.plots.atlas import heads
from headspec.plots.drawing.style import save
from headspec.progress import stage

wildcards, params = snakemake.wildcards, snakemake.params
RUN = "model == @wildcards.model and mixture == @wildcards.mixture and method == @wildcards.method"
with stage(snakemake.log[0], "figure atlas_heads"):
    inputs = {name: tables.read(path).query(RUN) for name, path in snakemake.input.items()}
    figure = heads.draw(**inputs, tasks=params.tasks)
    save(figure, snakemake.output, params.dpi, tables.record(snakemake))
