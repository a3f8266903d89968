"""TextEmb: pretrained model and encoded training samples -> a mean vector for each task."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

import numpy as np

from headspec import devices, encoders, tables
from headspec.batching import Examples
from headspec.multitask import MultiTask
from headspec.progress import stage
from headspec.representations import REPRESENTATIONS, mean_of_tasks
from headspec.seeds import derive
from headspec.settings import section

params = snakemake.params
with stage(snakemake.log[0], f"text embedding {snakemake.wildcards.model}"):
    device = devices.prepare(params.precision, snakemake.threads, snakemake.resources.parts)
    encoder, _ = encoders.load(section(params.model, pooling="auto"), f"models.{snakemake.wildcards.model}")
    examples = {t: Examples(tables.read(p)) for t, p in zip(params.tasks, snakemake.input, strict=True)}
    rows = {
        task: np.random.default_rng(derive(params.seed, "text embedding", task)).permutation(len(own))
        for task, own in examples.items()
    }
    rows = {task: order[: params.samples] for task, order in rows.items()}
    frame = mean_of_tasks(MultiTask(encoder, "mean", {}), examples, rows, device)
    footer = tables.provenance(snakemake, device=device.name, precision=device.precision)
    tables.write(snakemake.output[0], REPRESENTATIONS, frame, footer)
