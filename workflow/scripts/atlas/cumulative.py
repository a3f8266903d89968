"""Cumulative pruning of a run: model, tables of heads, gates, validation tokens -> predictions."""

import pandas as pd
from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.atlas.cumulative import (
    CUMULATIVE,
    bottom_first,
    by_gates,
    by_measures,
    cumulative,
    levels,
    random_rankings,
    rescored,
    same_layers,
)
from headspec.atlas.sample import HEAD_FOLDS, sampled
from headspec.config.values import BOTTOM, RESCORED, TOP
from headspec.models.stage import ModelStage
from headspec.progress import stage

snakemake: Snakemake
params = snakemake.params
with stage(snakemake, "cumulative {model}/{mixture}/{method}/seed{seed}".format(**snakemake.wildcards)):
    job = ModelStage(snakemake)
    examples = job.examples(params.tasks, snakemake.input.tokens)
    rows = {
        task: sampled(task, len(task_examples), params.examples) for task, task_examples in examples.items()
    }
    model, fractions = job.trained(), levels(params.fraction, params.fractions)
    measured = [tables.read(path) for path in snakemake.input.heads]  # none if no measure ranks
    heads = pd.concat(measured) if measured else pd.DataFrame(columns=list(HEAD_FOLDS.columns))
    measures = [name for name in params.rankings if name not in (RESCORED, *params.learnt)]
    rankings = by_measures(heads, measures, list(examples))
    for name, path in zip(params.learnt, snakemake.input.gates, strict=True):
        rankings += by_gates(name, tables.read(path), list(examples))
    if params.bottom:
        rankings += bottom_first(rankings)
    rankings += random_rankings(model.gates.exists, params.draws, job.seed)
    if RESCORED in params.rankings:
        for order in (TOP, BOTTOM) if params.bottom else (TOP,):
            rankings += rescored(model, examples, rows, fractions, job.device, order)
    rankings += same_layers(rankings, params.same_layers, params.draws, job.seed)
    frame = cumulative(model, examples, rows, rankings, params.fraction, params.fractions, job.device)
    tables.write(snakemake.output[0], CUMULATIVE, frame, job.footer())
