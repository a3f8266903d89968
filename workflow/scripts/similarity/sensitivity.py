"""One measure of similarity by parameters: single-task models and training samples' tokens -> cosines."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

import numpy as np
import pandas as pd

from headspec import tables
from headspec.models.multitask import MultiTask
from headspec.models.stage import ModelStage
from headspec.progress import Progress, stage
from headspec.seeds import derive
from headspec.similarity.cosines import pairwise_cosines
from headspec.similarity.sensitivity import PARAMETERS, fisher, gradient

wildcards, params = snakemake.wildcards, snakemake.params
with stage(snakemake, "{measure} {model}/seed{seed}".format(**wildcards)):
    job = ModelStage(snakemake)
    device, examples = job.device, job.examples(params.tasks, snakemake.input.tokens)
    samples = {}
    for task in params.tasks:
        rng = np.random.default_rng(derive(job.seed, "sensitivity samples", task))
        samples[task] = rng.permutation(len(examples[task]))[: params.samples]
    progress = Progress(sum(map(len, samples.values())), "examples")
    shared = None  # the pretrained encoder that training started from
    if wildcards.measure == "gradient":
        shared = job.pretrained(pooling="first")[0].state_dict()

    def vectors() -> Iterator[np.ndarray]:
        measured = fisher if shared is None else gradient
        for task, path in zip(params.tasks, snakemake.input.models, strict=True):
            model = MultiTask.load(Path(path).parent)
            if shared is not None:  # only the classifier differs between tasks
                model.encoder.load_state_dict(shared)
            yield measured(model, task, examples[task], samples[task], device, progress)

    similarity = pairwise_cosines(vectors(), Path(snakemake.output[0]).parent)
    pairs = itertools.combinations(range(len(params.tasks)), 2)
    rows = [(wildcards.measure, params.tasks[a], params.tasks[b], similarity[a, b]) for a, b in pairs]
    frame = pd.DataFrame(rows, columns=["measure", "task_a", "task_b", "similarity"])
    tables.write(snakemake.output[0], PARAMETERS, frame, job.footer())
