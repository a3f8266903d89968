"""What each head is worth by the metric: tables ablated of every run -> table single_heads."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.config.runs import Run
from headspec.progress import stage
from headspec.statistics.atlas.single_heads import SINGLE_HEADS, single_heads
from headspec.statistics.dissociation.resampled import Evaluation

params = snakemake.params
with stage(snakemake, "single heads"):
    evaluations = (
        Evaluation(Run(**run), params.metrics, tables.read(path))
        for run, path in zip(params.runs, snakemake.input, strict=True)
    )
    frame = single_heads(evaluations, **params.dissociation, seed=params.seed)
    tables.write(snakemake.output[0], SINGLE_HEADS, frame, tables.provenance(snakemake))
