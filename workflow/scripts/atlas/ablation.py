"""Ablation of each head of a run: model and validation tokens -> loss increases, predictions."""

import pandas as pd
from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.atlas.ablation import ABLATED, ablate, heads_table, predictions_table
from headspec.atlas.sample import HEAD_FOLDS, sampled
from headspec.models.stage import ModelStage
from headspec.progress import Progress, stage

snakemake: Snakemake
params = snakemake.params
with stage(snakemake, "ablation {model}/{mixture}/{method}/seed{seed}".format(**snakemake.wildcards)):
    job = ModelStage(snakemake)
    examples = job.examples(params.tasks, snakemake.input.tokens)
    rows = {
        task: sampled(task, len(task_examples), params.examples) for task, task_examples in examples.items()
    }
    model, measures = job.trained(), tuple(params.measures)
    progress = Progress(sum(map(len, rows.values())), "examples with every head ablated")
    heads, predictions = [], []
    for task, task_examples in examples.items():
        ablated = ablate(model, task, task_examples, rows[task], job.device, measures, progress)
        heads.append(heads_table(task, ablated))
        predictions.append(predictions_table(task, task_examples, rows[task], ablated))
    footer = job.footer()
    tables.write(snakemake.output.heads, HEAD_FOLDS, pd.concat(heads), footer)
    tables.write(snakemake.output.predictions, ABLATED, pd.concat(predictions), footer)
