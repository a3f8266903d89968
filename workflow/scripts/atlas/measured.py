"""A measure of heads from a module of its own: model and tokens of validation sets -> table of heads."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

import pandas as pd

from headspec import tables
from headspec.atlas.sample import HEAD_FOLDS, fold_means, sampled
from headspec.models.stage import ModelStage
from headspec.progress import stage

params, name = snakemake.params, snakemake.wildcards.measure
measure = import_module(f"headspec.atlas.{name}").measure
with stage(snakemake, f"measure {snakemake.output[0]}"):
    job = ModelStage(snakemake)
    model, frames = job.trained(), []
    model.to(job.device.name).eval()
    for task, examples in job.examples(params.tasks, snakemake.input.tokens).items():
        rows = sampled(task, len(examples), params.examples)
        frames.append(fold_means(task, name, measure(model, task, examples, rows, job.device)))
    tables.write(snakemake.output[0], HEAD_FOLDS, pd.concat(frames), job.footer())
