"""Training methods, and their comparison with plain training: predictions -> tables iat, improvement."""

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.config.runs import Run, Variant
from headspec.progress import stage
from headspec.statistics.improvement import IAT, IMPROVEMENT, iat_scores, improvement
from headspec.training.schedule import rate_share

snakemake: Snakemake
params = snakemake.params
with stage(snakemake, "improvement over multi-task training"):
    runs = [Run(**run) for run in params.runs]
    variants = [Variant(**variant) for variant in params.variants]
    paths = dict(zip(runs, snakemake.input.evaluations, strict=True))
    predictions = ((run, tables.read(path)) for run, path in paths.items())
    shares = {v.method: rate_share(v.delta, **params.rates) for v in variants if v.delta is not None}
    frame = iat_scores(predictions, variants, params.metrics, shares)
    footer = tables.provenance(snakemake)
    tables.write(snakemake.output.scores, IAT, frame, footer)
    frame = improvement(
        runs,
        lambda run: tables.read(paths[run]),
        variants,
        params.metrics,
        shares,
        **params.resampling,
        seed=params.seed,
    )
    tables.write(snakemake.output.improvement, IMPROVEMENT, frame, footer)
