"""Figure: specialization."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.plots import at_fraction, save, specialization
from headspec.progress import stage

wildcards, params = snakemake.wildcards, snakemake.params
with stage(snakemake.log[0], "figure specialization"):
    found = {}
    for name, path in snakemake.input.items():
        frame = tables.read(path)
        own = (frame["model"] == wildcards.model) & (frame["mixture"] == wildcards.mixture)
        found[name] = frame[own]
    found["dissociation"] = at_fraction(found["dissociation"], params.fraction)
    figure = specialization.draw(**found, tasks=params.tasks)
    save(figure, snakemake.output, params.dpi, tables.record(snakemake))
