"""Dissociation of a study: predictions of every run -> tables of scores, intervals and tests."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.config.runs import Run
from headspec.data.shared_texts import grouped
from headspec.progress import stage
from headspec.statistics.dissociation.analysis import SCHEMAS, dissociation_tables
from headspec.statistics.dissociation.resampled import Evaluation

params = snakemake.params
with stage(snakemake, "dissociation"):
    groups = grouped(params.sources, map(tables.read, snakemake.input.texts))
    evaluations = (
        Evaluation(Run(**run), params.metrics, path, groups)
        for run, path in zip(params.runs, snakemake.input.predictions, strict=True)
    )
    settings = {**params.dissociation, "fraction": params.fraction, "seed": params.seed}
    frames = dissociation_tables(evaluations, **settings, processes=snakemake.threads)
    footer = tables.provenance(snakemake)
    for name, frame in frames.items():
        tables.write(snakemake.output[name], SCHEMAS[name], frame, footer)
