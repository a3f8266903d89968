"""Similarity by parameters, one measure: single-task models and encoded training samples -> cosines."""

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

import numpy as np
import pandas as pd

# only these measures, so that a change of another does not run this again
import headspec.similarity.fisher as by_fisher
import headspec.similarity.gradient as by_gradient
from headspec import devices, encoders, tables
from headspec.batching import Examples
from headspec.multitask import MultiTask
from headspec.progress import Progress, stage
from headspec.seeds import derive
from headspec.sensitivity import PARAMETERS, fisher, gradient
from headspec.settings import section
from headspec.similarity import Traits

wildcards, params = snakemake.wildcards, snakemake.params
with stage(snakemake.log[0], "{measure} {model}/seed{seed}".format(**wildcards)):
    device = devices.prepare(params.precision, snakemake.threads, snakemake.resources.parts)
    seed = int(wildcards.seed)
    examples, samples = {}, {}
    for task, path in zip(params.tasks, snakemake.input.encoded, strict=True):
        examples[task] = Examples(tables.read(path))
        rng = np.random.default_rng(derive(seed, "sensitivity samples", task))
        samples[task] = rng.permutation(len(examples[task]))[: params.samples]
    progress = Progress(sum(map(len, samples.values())), "examples")
    found: dict[str, Traits] = {}
    shared = None  # the encoder from which every task began
    if wildcards.measure == "gradient":
        encoder, _ = encoders.load(section(params.model, pooling="auto"), f"models.{wildcards.model}")
        shared = encoder.state_dict()
    for task, path in zip(params.tasks, snakemake.input.models, strict=True):
        own = MultiTask.load(Path(path).parent)
        if shared is None:
            found[task] = {"fisher": fisher(own, task, examples[task], samples[task], device, progress)}
        else:  # its own is the classifier alone
            own.encoder.load_state_dict(shared)
            found[task] = {"gradient": gradient(own, task, examples[task], samples[task], device, progress)}
    similarity = {"fisher": by_fisher.fisher, "gradient": by_gradient.gradient}[wildcards.measure]
    rows = [
        (wildcards.measure, a, b, similarity(found[a], found[b]))
        for a, b in itertools.combinations(params.tasks, 2)
    ]
    footer = tables.provenance(snakemake, device=device.name, precision=device.precision, seed=seed)
    frame = pd.DataFrame(rows, columns=["measure", "task_a", "task_b", "similarity"])
    tables.write(snakemake.output[0], PARAMETERS, frame, footer)
