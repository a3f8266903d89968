"""Gains and losses of tasks that share an encoder: predictions of all runs -> table sharing."""

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.config.runs import Run
from headspec.progress import stage
from headspec.statistics.grouping.gains import SHARING, sharing

snakemake: Snakemake
params = snakemake.params
with stage(snakemake, "sharing"):
    runs = [Run(**run) for run in params.runs]
    paths = dict(zip(runs, snakemake.input.evaluations, strict=True))
    frame = sharing(
        runs, lambda run: tables.read(paths[run]), params.metrics, **params.resampling, seed=params.seed
    )
    tables.write(snakemake.output[0], SHARING, frame, tables.provenance(snakemake))
