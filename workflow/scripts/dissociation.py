"""Dissociation of a study: predictions of every run -> tables of scores, intervals and tests."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.dissociation_tables import SCHEMAS, analyse
from headspec.progress import stage
from headspec.resampled import Evaluation
from headspec.runs import Run

params = snakemake.params
with stage(snakemake.log[0], "dissociation"):
    evaluations = (
        Evaluation(Run(**run), params.metrics, tables.read(path))
        for run, path in zip(params.runs, snakemake.input, strict=True)
    )
    found = analyse(evaluations, **params.dissociation, **params.pruning, seed=params.seed)
    footer = tables.provenance(snakemake)
    for name, frame in found.items():
        tables.write(snakemake.output[name], SCHEMAS[name], frame, footer)
