"""Dissociation of a study: predictions of all runs -> tables of scores, intervals and tests."""

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.data.overlap import grouped
from headspec.progress import stage
from headspec.statistics.dissociation.analysis import SCHEMAS, dissociation_tables
from headspec.statistics.dissociation.pruned import evaluations

snakemake: Snakemake
params = snakemake.params
with stage(snakemake, "dissociation"):
    groups = grouped(params.sources, map(tables.read, snakemake.input.texts))
    runs = evaluations(params.runs, params.metrics, snakemake.input.predictions, groups)
    settings = {**params.dissociation, "fraction": params.fraction, "seed": params.seed}
    frames = dissociation_tables(runs, **settings, processes=snakemake.threads)
    footer = tables.provenance(snakemake)
    for name, frame in frames.items():
        tables.write(snakemake.output[name], SCHEMAS[name], frame, footer)
