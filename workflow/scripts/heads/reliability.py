"""Reliability of head importance: importance of all runs -> table reliability."""

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.config.runs import Run
from headspec.heads.reliability import RELIABILITY, reliability
from headspec.progress import stage

snakemake: Snakemake
params = snakemake.params
with stage(snakemake, "reliability"):
    importances = ((Run(**run), path) for run, path in zip(params.runs, snakemake.input, strict=True))
    frame = reliability(importances, params.fraction, snakemake.threads)
    footer = tables.provenance(snakemake)
    tables.write(snakemake.output[0], RELIABILITY, frame, footer)
