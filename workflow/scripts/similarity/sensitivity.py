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
from headspec.similarity.cosines import pairwise_cosines
from headspec.similarity.sensitivity import PARAMETERS, fisher, gradient
from headspec.similarity.single_runs import sampled, under_one_encoder

wildcards, params = snakemake.wildcards, snakemake.params
with stage(snakemake, "{measure} {model}/seed{seed}".format(**wildcards)):
    job = ModelStage(snakemake)
    device, examples = job.device, job.examples(params.tasks, snakemake.input.tokens)
    samples = sampled(examples, params.samples, job.seed)
    folders = [Path(path).parent for path in snakemake.input.models]
    singles = dict(zip(params.tasks, folders, strict=True))
    progress = Progress(sum(map(len, samples.values())), "examples")

    def vectors() -> Iterator[np.ndarray]:
        if wildcards.measure == "fisher":
            for task, folder in singles.items():
                yield fisher(MultiTask.load(folder), task, examples[task], samples[task], device, progress)
        else:
            model = under_one_encoder(job.pretrained(pooling="first")[0], singles)
            for task in singles:
                yield gradient(model, task, examples[task], samples[task], device, progress)

    similarity = pairwise_cosines(vectors(), Path(snakemake.output[0]).parent)
    pairs = itertools.combinations(range(len(params.tasks)), 2)
    rows = [(wildcards.measure, params.tasks[a], params.tasks[b], similarity[a, b]) for a, b in pairs]
    frame = pd.DataFrame(rows, columns=["measure", "task_a", "task_b", "similarity"])
    tables.write(snakemake.output[0], PARAMETERS, frame, job.footer())
