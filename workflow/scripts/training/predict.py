"""Predictions of a run for test sets: model and tokens -> table submission."""

import pandas as pd
from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.data import submission
from headspec.heads.pruning import evaluation_table
from headspec.models.stage import ModelStage
from headspec.progress import log, stage

snakemake: Snakemake
params = snakemake.params
with stage(snakemake, "predict {model}/{mixture}/{method}/seed{seed}".format(**snakemake.wildcards)):
    job = ModelStage(snakemake)
    model = job.trained()
    frames, rows = [], {}
    paths = zip(snakemake.input.tokens, snakemake.input.data, strict=True)
    for (file, task), (tokens, data) in zip(params.files.items(), paths, strict=True):
        frame = evaluation_table(model, job.examples([task], [tokens]), job.device)
        frames.append(frame.merge(tables.read(data)[["example", "index"]]).assign(file=file))
        rows[file] = len(frame)
    warnings = submission.warnings(rows)
    for warning in warnings:
        log.warning("%s", warning)
    classes = {file: model.classes[task] for file, task in params.files.items()}
    footer = job.footer(classes=classes, warnings=warnings)
    tables.write(snakemake.output[0], submission.SUBMISSION, pd.concat(frames), footer)
