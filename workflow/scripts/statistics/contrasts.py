"""Contrasts of dissociations: predictions of all runs -> table."""

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.data.overlap import grouped
from headspec.progress import stage
from headspec.statistics.dissociation.contrasts import CONTRASTS, contrasts
from headspec.statistics.dissociation.pruned import evaluations

snakemake: Snakemake
params = snakemake.params
with stage(snakemake, "contrasts"):
    groups = grouped(params.sources, map(tables.read, snakemake.input.texts))
    runs = evaluations(params.runs, params.metrics, snakemake.input.predictions, groups)
    settings = {**params.dissociation, "fraction": params.fraction, "seed": params.seed}
    frame = contrasts(
        runs, params.pairs, params.paradigms, params.parents, **settings, processes=snakemake.threads
    )
    tables.write(snakemake.output[0], CONTRASTS, frame, tables.provenance(snakemake))
