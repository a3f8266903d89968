"""Scores of every training method: predictions -> tables/iat."""

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.config.runs import Run, Variant
from headspec.progress import stage
from headspec.statistics.training.improvement import IAT, scores

params = snakemake.params
with stage(snakemake, "scores of every training method"):
    runs = [Run(**run) for run in params.runs]
    variants = [Variant(**variant) for variant in params.variants]
    predictions = (tables.read(path) for path in snakemake.input.evaluations)
    branched = [run for run in runs if run.method in params.branched]
    paths = zip(branched, snakemake.input.histories, strict=True)
    histories = {run: partial(tables.read, path) for run, path in paths}
    frame = scores(zip(runs, predictions, strict=True), variants, params.metrics, histories)
    tables.write(snakemake.output[0], IAT, frame, tables.provenance(snakemake))
