"""Figure: specialization."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.plots import specialization
from headspec.plots.drawing.style import at_fraction, save
from headspec.progress import stage

wildcards, params = snakemake.wildcards, snakemake.params
with stage(snakemake, "figure specialization"):
    frames = {}
    for name, path in snakemake.input.items():
        frame = tables.read(path)
        chosen = (frame["model"] == wildcards.model) & (frame["mixture"] == wildcards.mixture)
        frames[name] = frame[chosen]
    frames["dissociation"] = at_fraction(frames["dissociation"], params.fraction)
    figure = specialization.draw(**frames, tasks=params.tasks)
    save(figure, snakemake.output, params.dpi, tables.record(snakemake))
