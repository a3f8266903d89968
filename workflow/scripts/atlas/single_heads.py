"""Change of the metric without each head: tables ablated of all runs -> table single_heads."""

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.progress import stage
from headspec.statistics.atlas.single_heads import SINGLE_HEADS, single_heads
from headspec.statistics.dissociation.pruned import evaluations

snakemake: Snakemake
params = snakemake.params
with stage(snakemake, "single heads"):
    runs = evaluations(params.runs, params.metrics, map(tables.read, snakemake.input))
    frame = single_heads(runs, **params.dissociation, seed=params.seed)
    tables.write(snakemake.output[0], SINGLE_HEADS, frame, tables.provenance(snakemake))
