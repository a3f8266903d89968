"""Similarity of tasks: traits of all tasks, by model and seed -> tables of similarity and affinity."""

import pandas as pd
from snakemake.iocontainers import Snakemake

from headspec import plugins, tables
from headspec.progress import stage
from headspec.similarity.affinity import AFFINITY, affinity, both_ways
from headspec.similarity.table import SIMILARITY, combined, encodings, pairwise, traits

snakemake: Snakemake
params, inputs = snakemake.params, snakemake.input
tasks = list(params.paradigms)
measures, subject_measures = (
    {name: plugins.function(source) for name, source in sources.items()}
    for sources in (params.measures, params.subject_measures)
)
with stage(snakemake, "similarity"):
    frames, directed = [], []
    for m, model in enumerate(params.models):
        text = tables.read(inputs.text[m]) if inputs.text else None
        seeds, affinities = [], []
        for run in range(m * len(params.seeds), (m + 1) * len(params.seeds)):
            vectors = tables.read(inputs.vectors[run]) if inputs.vectors else None
            paths = inputs.importance[run * len(tasks) : (run + 1) * len(tasks)]
            importances = {task: tables.read(path) for task, path in zip(tasks, paths, strict=False)}
            by_task = traits(params.paradigms, text, vectors, importances, params.fraction)
            compared = [pairwise(by_task, tasks, measures)]
            runs = len(params.models) * len(params.seeds)
            compared += [tables.read(path) for path in inputs.parameters[run::runs]]
            both = [tables.read(path) for path in inputs.affinity[run::runs]]
            compared += [both_ways(table, tasks) for table in both]
            affinities += both
            if inputs.brain_encoding:
                for subject, by_task in encodings(tables.read(inputs.brain_encoding[run])).items():
                    compared.append(pairwise(by_task, tasks, subject_measures, subject))
            seeds.append(pd.concat(compared, ignore_index=True))
        frames.append(combined(model, seeds, params.confidence, params.seedless))
        directed += [affinity(model, affinities)] if affinities else []
    footer = tables.provenance(snakemake)
    tables.write(snakemake.output.similarity, SIMILARITY, pd.concat(frames, ignore_index=True), footer)
    if directed:
        tables.write(snakemake.output.affinity, AFFINITY, pd.concat(directed, ignore_index=True), footer)
