"""Similarity by parameters, one measure: single-task models and tokens of training samples -> cosines."""

import itertools
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

# imported one by one, so that a change to another measure does not rerun this job
from headspec.similarity import fisher as by_fisher
from headspec.similarity import gradient as by_gradient
from headspec.similarity.sensitivity import PARAMETERS, fisher, gradient
from headspec.similarity.traits import Traits

wildcards, params = snakemake.wildcards, snakemake.params
with stage(snakemake, "{measure} {model}/seed{seed}".format(**wildcards)):
    job = ModelStage(snakemake)
    device, examples = job.device, job.examples(params.tasks, snakemake.input.tokens)
    samples = {}
    for task in params.tasks:
        rng = np.random.default_rng(derive(job.seed, "sensitivity samples", task))
        samples[task] = rng.permutation(len(examples[task]))[: params.samples]
    progress = Progress(sum(map(len, samples.values())), "examples")
    traits: dict[str, Traits] = {}
    shared = None  # the pretrained encoder that training started from
    if wildcards.measure == "gradient":
        shared = job.pretrained(pooling="auto")[0].state_dict()
    for task, path in zip(params.tasks, snakemake.input.models, strict=True):
        model = MultiTask.load(Path(path).parent)
        if shared is None:
            traits[task] = {"fisher": fisher(model, task, examples[task], samples[task], device, progress)}
        else:  # the classifier alone differs between tasks
            model.encoder.load_state_dict(shared)
            traits[task] = {
                "gradient": gradient(model, task, examples[task], samples[task], device, progress)
            }
    similarity = {"fisher": by_fisher.fisher, "gradient": by_gradient.gradient}[wildcards.measure]
    rows = [
        (wildcards.measure, a, b, similarity(traits[a], traits[b]))
        for a, b in itertools.combinations(params.tasks, 2)
    ]
    frame = pd.DataFrame(rows, columns=["measure", "task_a", "task_b", "similarity"])
    tables.write(snakemake.output[0], PARAMETERS, frame, job.footer())
