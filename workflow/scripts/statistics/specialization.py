"""Dissociation before and after IAT: predictions of both -> table specialization."""

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.data.overlap import grouped
from headspec.progress import stage
from headspec.statistics.dissociation.pruned import evaluations
from headspec.statistics.improvement import SPECIALIZATION, specialization

snakemake: Snakemake
params = snakemake.params
with stage(snakemake, "specialization before and after IAT"):
    groups = grouped(params.sources, map(tables.read, snakemake.input.texts))
    runs = evaluations(params.runs, params.metrics, snakemake.input.predictions, groups)
    frame = specialization(runs, params.before, params.fraction, **params.resampling, seed=params.seed)
    footer = tables.provenance(snakemake)
    tables.write(snakemake.output[0], SPECIALIZATION, frame, footer)
