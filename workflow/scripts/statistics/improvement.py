"""Comparison of all training methods with plain multi-task training: predictions -> table improvement."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.config.runs import Run, Variant
from headspec.progress import stage
from headspec.statistics.training.improvement import IMPROVEMENT, improvement

params = snakemake.params
with stage(snakemake, "improvement over multi-task training"):
    runs = [Run(**run) for run in params.runs]
    paths = dict(zip(runs, snakemake.input.evaluations, strict=True))
    frame = improvement(
        tables.read(snakemake.input.scores),
        runs,
        lambda run: tables.read(paths[run]),
        [Variant(**variant) for variant in params.variants],
        params.metrics,
        **params.resampling,
        seed=params.seed,
    )
    footer = tables.provenance(snakemake)
    tables.write(snakemake.output[0], IMPROVEMENT, frame, footer)
