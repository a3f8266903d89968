"""Which ranking finds the heads that matter: tables cumulative of all runs -> curves, areas, dissociation."""

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.data.overlap import grouped
from headspec.progress import stage
from headspec.statistics.atlas.rankings import SCHEMAS, pruning_curves, ranking_dissociation
from headspec.statistics.dissociation.pruned import evaluations

snakemake: Snakemake
params, dissociation = snakemake.params, dict(snakemake.params.dissociation)
with stage(snakemake, "rankings"):
    groups = grouped(params.sources, map(tables.read, snakemake.input.texts))
    predictions = map(tables.read, snakemake.input.predictions)
    runs = list(evaluations(params.runs, params.metrics, predictions, groups))
    mixed = [one for one in runs if len(one.run.tasks) > 1]
    frames = {
        "ranking_dissociation": ranking_dissociation(mixed, params.fraction, **dissociation, seed=params.seed)
    }
    del dissociation["distinct"]
    frames |= pruning_curves(runs, **dissociation, seed=params.seed)
    footer = tables.provenance(snakemake)
    for name, frame in frames.items():
        tables.write(snakemake.output[name], SCHEMAS[name], frame, footer)
