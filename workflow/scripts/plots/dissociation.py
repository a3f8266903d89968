"""Figure: dissociation."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.plots import dissociation
from headspec.plots.drawing.style import at_fraction, save
from headspec.progress import stage

params = snakemake.params
with stage(snakemake, "figure dissociation"):
    inputs = {name: tables.read(path) for name, path in snakemake.input.items()}
    seeds = at_fraction(inputs["dissociation"], params.fraction)
    figure = dissociation.draw(inputs["combined"], seeds, params.mixtures, params.distinct)
    save(figure, snakemake.output, params.dpi, tables.record(snakemake))
