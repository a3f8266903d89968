"""Reliability of head importance: importance of every run -> table of rank correlations."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.progress import stage
from headspec.reliability import RELIABILITY, reliability
from headspec.runs import Run

params = snakemake.params
with stage(snakemake.log[0], "reliability"):
    importances = (
        (Run(**run), tables.read(path)) for run, path in zip(params.runs, snakemake.input, strict=True)
    )
    frame = reliability(importances, params.fraction)
    footer = tables.provenance(snakemake)
    tables.write(snakemake.output[0], RELIABILITY, frame, footer)
