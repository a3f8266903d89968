"""Similarity of tasks: traits of all tasks, by model and seed -> tables of similarity and affinity."""

from collections import defaultdict

import pandas as pd
from snakemake.iocontainers import Snakemake

from headspec import plugins, tables
from headspec.progress import stage
from headspec.similarity.measures import Measure, by_subject, pairwise
from headspec.similarity.table import AFFINITY, SIMILARITY, affinity, both_ways, combined

snakemake: Snakemake
params = snakemake.params
tasks = list(params.paradigms)
measures = {
    name: Measure(entry["of"], plugins.function(entry["function"])) for name, entry in params.measures.items()
}
paths: dict[tuple[str, str, int | None], list[str]] = defaultdict(list)
for made_from, path in zip(params.tables, snakemake.input, strict=True):
    paths[tuple(made_from)].append(path)


def table(name: str, model: str, seed: int) -> pd.DataFrame:
    """Return the tables of a rule or measure, of all tasks."""
    found = paths.get((name, model, seed)) or paths[name, model, None]
    return pd.concat(map(tables.read, found), ignore_index=True)


with stage(snakemake, "similarity"):
    frames, directed = [], []
    for model in params.models:
        seeds, affinities = [], []
        for seed in params.seeds:
            read = {}
            for name, entry in params.traits.items():
                values = plugins.function(entry["read"])(table(entry["rule"], model, seed), params.fraction)
                read[name] = values if entry["by_subject"] else {None: values}
            whole, *subjects = by_subject(params.paradigms, read).items()
            compared = [pairwise(*whole, tasks, measures)]
            compared += [table(name, model, seed) for name in params.symmetric]
            both = [table(name, model, seed) for name in params.directed]
            compared += [both_ways(each, tasks) for each in both]
            affinities += both
            compared += [pairwise(*subject, tasks, measures) for subject in subjects]
            seeds.append(pd.concat(compared, ignore_index=True))
        frames.append(combined(model, seeds, params.confidence, params.seedless))
        directed += [affinity(model, affinities)] if affinities else []
    footer = tables.provenance(snakemake)
    tables.write(snakemake.output.similarity, SIMILARITY, pd.concat(frames, ignore_index=True), footer)
    if directed:
        tables.write(snakemake.output.affinity, AFFINITY, pd.concat(directed, ignore_index=True), footer)
