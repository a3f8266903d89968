"""Scores of every way of training: predictions -> tables/iat."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.improvement import IAT, scores
from headspec.progress import stage
from headspec.runs import Run, Variant

params = snakemake.params
with stage(snakemake.log[0], "scores of every way of training"):
    runs = [Run(**run) for run in params.runs]
    variants = [Variant(**variant) for variant in params.variants]
    predictions = (tables.read(path) for path in snakemake.input)
    frame = scores(zip(runs, predictions, strict=True), variants, params.metrics)
    tables.write(snakemake.output[0], IAT, frame, tables.provenance(snakemake))
