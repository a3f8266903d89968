"""Which ranking of heads to trust: tables of agreement, areas and dissociation -> table belief."""

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.progress import stage
from headspec.statistics.atlas.rankings_belief import BELIEF, belief

snakemake: Snakemake
with stage(snakemake, "belief"):
    frame = belief(**{name: tables.read(path) for name, path in snakemake.input.items()})
    tables.write(snakemake.output[0], BELIEF, frame, tables.provenance(snakemake))
