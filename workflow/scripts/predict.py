"""Predictions of one run for test sets: model and encoded test sets -> table submission."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

import pandas as pd

from headspec import devices, submission, tables
from headspec.batching import Examples
from headspec.multitask import MultiTask
from headspec.progress import log, stage
from headspec.pruning import evaluation_table

wildcards, params = snakemake.wildcards, snakemake.params
with stage(snakemake.log[0], "predict {model}/{mixture}/{method}/seed{seed}".format(**wildcards)):
    device = devices.prepare(params.precision, snakemake.threads, snakemake.resources.parts)
    model = MultiTask.load(Path(snakemake.input.model).parent)
    frames, rows = [], {}
    paths = zip(snakemake.input.encoded, snakemake.input.data, strict=True)
    for (file, task), (encoded, data) in zip(params.files.items(), paths, strict=True):
        frame = evaluation_table(model, {task: Examples(tables.read(encoded))}, device)
        frames.append(frame.merge(tables.read(data)[["example", "index"]]).assign(file=file))
        rows[file] = len(frame)
    warnings = submission.warnings(rows)
    for warning in warnings:
        log.warning("%s", warning)
    footer = tables.provenance(
        snakemake,
        device=device.name,
        precision=device.precision,
        seed=int(wildcards.seed),
        classes={file: model.classes[task] for file, task in params.files.items()},
        warnings=warnings,
    )
    tables.write(snakemake.output[0], submission.SUBMISSION, pd.concat(frames), footer)
