"""Which ranking of heads to believe: tables of agreement, areas and dissociation -> table belief."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.progress import stage
from headspec.statistics.atlas.belief import BELIEF, belief

with stage(snakemake, "belief"):
    frame = belief(**{name: tables.read(path) for name, path in snakemake.input.items()})
    tables.write(snakemake.output[0], BELIEF, frame, tables.provenance(snakemake))
