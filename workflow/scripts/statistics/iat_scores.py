"""Scores of all training methods: predictions -> table iat."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.config.runs import Run, Variant
from headspec.progress import stage
from headspec.statistics.training.improvement import IAT, scores
from headspec.training.schedule import rate_share

params = snakemake.params
with stage(snakemake, "scores of every training method"):
    runs = [Run(**run) for run in params.runs]
    variants = [Variant(**variant) for variant in params.variants]
    predictions = (tables.read(path) for path in snakemake.input.evaluations)
    shares = {v.method: rate_share(v.delta, **params.rates) for v in variants if v.delta is not None}
    frame = scores(zip(runs, predictions, strict=True), variants, params.metrics, shares)
    tables.write(snakemake.output[0], IAT, frame, tables.provenance(snakemake))
