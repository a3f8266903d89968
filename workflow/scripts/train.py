"""Fine-tune one run: encoded tables -> model and training history."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

import torch

from headspec import devices, encoders, tables
from headspec.batching import Examples
from headspec.multitask import MultiTask
from headspec.progress import stage
from headspec.seeds import derive
from headspec.study import Model, Training
from headspec.training import Checkpoint, exclusive, train

wildcards, params = snakemake.wildcards, snakemake.params
with stage(snakemake.log[0], "train {model}/{mixture}/{method}/seed{seed}".format(**wildcards)):
    device = devices.prepare(params.precision, snakemake.threads, snakemake.resources.parts)
    examples = {t: Examples(tables.read(p)) for t, p in zip(params.tasks, snakemake.input, strict=True)}
    classes = {t: tables.footer(p)["classes"] for t, p in zip(params.tasks, snakemake.input, strict=True)}
    seed = int(wildcards.seed)
    settings = [params.tasks, params.model, params.training, device.precision, seed]
    data = [hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in snakemake.input]
    fingerprint = repr([settings, params.code, data])

    folder = Path(snakemake.output.history).parent
    with exclusive(folder / "training.lock"):
        encoder, pooling = encoders.load(Model(**params.model), f"models.{wildcards.model}")
        torch.manual_seed(derive(seed, "heads"))
        model = MultiTask(encoder, pooling, classes)
        checkpoint = Checkpoint(folder / "checkpoint.pt", fingerprint, snakemake.resources.checkpoint_seconds)
        history = train(
            model,
            examples,
            Training(**params.training),
            wildcards.method == "frozen",
            seed,
            device,
            checkpoint,
            snakemake.resources.parts,
        )
        model.save(Path(snakemake.output.model).parent)
        footer = tables.provenance(
            params.study, settings, device=device.name, precision=device.precision, seed=seed
        )
        tables.write(snakemake.output.history, "training", history, footer)
        checkpoint.remove()
