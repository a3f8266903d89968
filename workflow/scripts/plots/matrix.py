"""Figure: matrix."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.plots import matrix
from headspec.plots.drawing.style import save
from headspec.progress import stage

params = snakemake.params
with stage(snakemake, "figure matrix"):
    seeds = {seed: tables.read(path) for seed, path in zip(params.seeds, snakemake.input, strict=True)}
    figure = matrix.draw(seeds, params.tasks, params.fraction, params.metrics)
    save(figure, snakemake.output, params.dpi, tables.record(snakemake))
