"""Similarity of tasks: traits of all tasks, by model and seed -> tables of similarity and affinity."""

from pathlib import Path

import pandas as pd
from snakemake.iocontainers import Snakemake

from headspec import plugins, tables
from headspec.progress import stage
from headspec.similarity.measures import Measure, by_subject, pairwise
from headspec.similarity.table import AFFINITY, SIMILARITY, affinity, both_ways, combined

snakemake: Snakemake
params = snakemake.params
tasks, results = list(params.paradigms), Path(snakemake.output.similarity).parents[1]
of_traits = {name: entry for name, entry in params.measures.items() if entry["of"]}
of_weights = [entry for entry in params.measures.values() if not entry["of"]]
measures = {name: Measure(e["of"], plugins.function(e["function"])) for name, e in of_traits.items()}
seedless = [name for name, entry in params.measures.items() if not entry["single"]]


def table(path: str, model: str, seed: int) -> pd.DataFrame:
    """Return the tables of a trait or measure, of all tasks."""
    paths = dict.fromkeys(path.format(model=model, seed=seed, task=task) for task in tasks)
    return pd.concat([tables.read(results / path) for path in paths], ignore_index=True)


with stage(snakemake, "similarity"):
    frames, directed = [], []
    for model in params.models:
        seeds, affinities = [], []
        for seed in params.seeds:
            read = {}
            for entry in of_traits.values():
                if entry["path"] and entry["of"] not in read:
                    found = table(entry["path"], model, seed)
                    values = plugins.function(entry["read"])(found, params.fraction)
                    read[entry["of"]] = values if entry["by_subject"] else {None: values}
            whole, *subjects = by_subject(params.paradigms, read).items()
            symmetric = [table(e["path"], model, seed) for e in of_weights if not e["directed"]]
            both = [table(e["path"], model, seed) for e in of_weights if e["directed"]]
            compared = [pairwise(*whole, tasks, measures), *symmetric]
            compared += [both_ways(each, tasks) for each in both]
            affinities += both
            compared += [pairwise(*subject, tasks, measures) for subject in subjects]
            seeds.append(pd.concat(compared, ignore_index=True))
        frames.append(combined(model, seeds, params.confidence, seedless))
        directed += [affinity(model, affinities)] if affinities else []
    footer = tables.provenance(snakemake)
    tables.write(snakemake.output.similarity, SIMILARITY, pd.concat(frames, ignore_index=True), footer)
    if directed:
        tables.write(snakemake.output.affinity, AFFINITY, pd.concat(directed, ignore_index=True), footer)
