"""Figure: improvement."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.config.runs import Variant
from headspec.plots import improvement
from headspec.plots.drawing.style import save
from headspec.progress import stage
from headspec.statistics.training.improvement import by_seed

wildcards, params = snakemake.wildcards, snakemake.params
with stage(snakemake, "figure improvement"):
    table = tables.read(snakemake.input.improvement)
    table = table[(table["model"] == wildcards.model) & (table["mixture"] == wildcards.mixture)]
    scores = tables.read(snakemake.input.scores).query("model == @wildcards.model")
    variants = [Variant(**variant) for variant in params.variants]
    seeds = by_seed(scores, {wildcards.mixture: params.tasks}, variants)
    figure = improvement.draw(table, seeds, params.metrics, params.labels)
    save(figure, snakemake.output, params.dpi, tables.record(snakemake))
