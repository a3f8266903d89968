"""TextEmb: pretrained model and tokens of training samples -> mean vector of each task."""

import numpy as np
from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.models.internals.activations import REPRESENTATIONS, task_means
from headspec.models.multitask import MultiTask
from headspec.models.stage import ModelStage
from headspec.progress import stage
from headspec.seeds import derive

snakemake: Snakemake
params = snakemake.params
with stage(snakemake, f"text embedding {snakemake.wildcards.model}"):
    job = ModelStage(snakemake)
    model = MultiTask(job.encoder(), "mean", {})
    examples = job.examples(params.tasks, snakemake.input)
    rows = {
        task: np.random.default_rng(derive(params.seed, "text embedding", task)).permutation(len(each))
        for task, each in examples.items()
    }
    rows = {task: order[: params.samples] for task, order in rows.items()}
    frame = task_means(model, examples, rows, job.device)
    tables.write(snakemake.output[0], REPRESENTATIONS, frame, job.footer())
