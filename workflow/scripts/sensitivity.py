"""Similarity by parameters: single-task models and encoded training samples -> cosines of pairs."""

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
from headspec.sensitivity import fisher, gradient
from headspec.similarity import Traits
from headspec.study import Model

wildcards, params = snakemake.wildcards, snakemake.params
with stage(snakemake.log[0], "sensitivity {model}/seed{seed}".format(**wildcards)):
    device = devices.prepare(params.precision, snakemake.threads, snakemake.resources.parts)
    seed = int(wildcards.seed)
    folders = {t: Path(p).parent for t, p in zip(params.tasks, snakemake.input.models, strict=True)}
    examples, samples = {}, {}
    for task, path in zip(params.tasks, snakemake.input.encoded, strict=True):
        examples[task] = Examples(tables.read(path))
        rng = np.random.default_rng(derive(seed, "sensitivity samples", task))
        samples[task] = rng.permutation(len(examples[task]))[: params.samples]
    progress = Progress(len(params.measures) * sum(map(len, samples.values())), "examples")

    traits: dict[str, Traits]
    rows = []
    if "fisher" in params.measures:
        traits = {}
        for task, folder in folders.items():
            own = MultiTask.load(folder)
            traits[task] = {"fisher": fisher(own, task, examples[task], samples[task], device, progress)}
        for a, b in itertools.combinations(folders, 2):
            rows.append(("fisher", a, b, by_fisher.fisher(traits[a], traits[b])))
    if "gradient" in params.measures:
        traits = {}
        encoder, _ = encoders.load(Model(**params.model), f"models.{wildcards.model}")
        for task, folder in folders.items():
            own = MultiTask.load(folder)  # its classifier, on the encoder from which every task began
            own.encoder.load_state_dict(encoder.state_dict())
            traits[task] = {"gradient": gradient(own, task, examples[task], samples[task], device, progress)}
        for a, b in itertools.combinations(folders, 2):
            rows.append(("gradient", a, b, by_gradient.gradient(traits[a], traits[b])))
    footer = tables.provenance(
        params.study, [params.tasks, params.model, params.samples, params.measures],
        device=device.name, precision=device.precision, seed=seed,
    )  # fmt: skip
    frame = pd.DataFrame(rows, columns=["measure", "task_a", "task_b", "similarity"])
    tables.write(snakemake.output[0], "parameters", frame, footer)
