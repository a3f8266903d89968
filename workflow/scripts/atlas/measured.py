"""A measure of heads with its own function: model and validation tokens -> table of heads."""

import numpy as np
import pandas as pd
from snakemake.iocontainers import Snakemake

from headspec import plugins, tables
from headspec.atlas.sample import HEAD_FOLDS, measure_folds, sampled
from headspec.models.devices import require_finite
from headspec.models.stage import ModelStage
from headspec.progress import stage

snakemake: Snakemake
params, name = snakemake.params, snakemake.wildcards.measure
measure = plugins.function(params.function)
with stage(snakemake, f"measure {snakemake.output[0]}"):
    job = ModelStage(snakemake)
    model, frames = job.trained(), []
    more = (job.encoder(),) if params.from_pretrained else ()
    model.to(job.device.name).eval()
    for task, examples in job.examples(params.tasks, snakemake.input.tokens).items():
        rows = sampled(task, len(examples), params.examples)
        values = measure(model, task, examples, rows, job.device, *more)
        exists = model.gates.exists
        plugins.check(values, (len(rows), *exists.shape), params.function)
        require_finite(values[:, exists], f"{name}, task '{task}'", examples.example[rows], job.device)
        frames.append(measure_folds(task, name, np.where(exists, values, np.nan)))
    tables.write(snakemake.output[0], HEAD_FOLDS, pd.concat(frames), job.footer())
