"""Evaluation of a run: model, tokens of validation sets and further splits -> predictions."""

import pandas as pd
from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.heads.pruning import EVALUATION, evaluation_table
from headspec.models.stage import ModelStage
from headspec.progress import log, stage
from headspec.statistics.chance import warnings

snakemake: Snakemake
params = snakemake.params
with stage(snakemake, "evaluate {model}/{mixture}/{method}/seed{seed}".format(**snakemake.wildcards)):
    job = ModelStage(snakemake)
    model = job.trained()
    metrics = dict(params.metrics)
    frames = [evaluation_table(model, job.examples(metrics, snakemake.input.tokens), job.device)]
    for (name, task), path in zip(params.further.items(), snakemake.input.further, strict=True):
        split = evaluation_table(model, job.examples([task], [path]), job.device)
        frames.append(split.assign(task=name))
        metrics[name] = metrics[task]
    frame = pd.concat(frames)
    for warning in warnings(frame, metrics):
        log.warning("%s", warning)
    tables.write(snakemake.output[0], EVALUATION, frame, job.footer())
