"""Correlation over pairs of tasks: similarity and dissociation -> table correlation."""

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.errors import listing
from headspec.progress import log, stage
from headspec.statistics.correlation import CORRELATION, correlation, paired

snakemake: Snakemake
params = snakemake.params
with stage(snakemake, "correlation"):
    inputs = {name: tables.read(path) for name, path in snakemake.input.items()}
    pairs = paired(inputs["similarity"], inputs["combined"], params.paradigms, params.method)
    for model, left_out in pairs[pairs["left_out"]].groupby("model"):
        log.warning(
            "%s learnt nothing of a task of %s: left out", model, listing(left_out["mixture"].unique())
        )
    frame = correlation(pairs, params.seed)
    footer = tables.provenance(snakemake, seed=params.seed)
    tables.write(snakemake.output[0], CORRELATION, frame, footer)
