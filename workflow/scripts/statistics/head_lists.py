"""Verdicts on listed heads: predictions of all runs without them -> table head_lists."""

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.data.overlap import grouped
from headspec.progress import stage
from headspec.statistics.dissociation.head_lists import HEAD_LISTS, head_lists
from headspec.statistics.dissociation.pruned import evaluations

snakemake: Snakemake
params = snakemake.params
with stage(snakemake, "head lists"):
    groups = grouped(params.sources, map(tables.read, snakemake.input.texts))
    runs = evaluations(params.runs, params.metrics, snakemake.input.predictions, groups)
    frame = head_lists(runs, **params.dissociation, seed=params.seed)
    tables.write(snakemake.output[0], HEAD_LISTS, frame, tables.provenance(snakemake))
