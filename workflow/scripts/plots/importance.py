"""Figure: importance."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.plots import importance
from headspec.plots.drawing.style import save
from headspec.progress import stage

params = snakemake.params
with stage(snakemake, "figure importance"):
    seeds = {seed: tables.read(path) for seed, path in zip(params.seeds, snakemake.input, strict=True)}
    figure = importance.draw(seeds, params.tasks, params.fraction)
    save(figure, snakemake.output, params.dpi, tables.record(snakemake))
