"""Fine-tune one run: encoded tables -> model and training history."""

import os
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
from headspec.settings import section
from headspec.training import TRAINING, Checkpoint, exclusive, fingerprint, train

wildcards, params = snakemake.wildcards, snakemake.params
with stage(snakemake.log[0], "train {model}/{mixture}/{method}/seed{seed}".format(**wildcards)):
    device = devices.prepare(params.precision, snakemake.threads, snakemake.resources.parts)
    paths, seed = snakemake.input.encoded, int(wildcards.seed)
    examples = {t: Examples(tables.read(p)) for t, p in zip(params.tasks, paths, strict=True)}
    classes = {t: tables.footer(p)["classes"] for t, p in zip(params.tasks, paths, strict=True)}
    features = None
    if wildcards.method == "frozen":
        files = zip(examples.items(), snakemake.input.features, strict=True)
        features = {task: own.vectors(tables.read(path)) for (task, own), path in files}
    settings = [params.tasks, params.model, params.training, device.precision, seed]
    mark = fingerprint([settings, params.version, params.code], snakemake.input)
    reserve = params.get("reserve", 0.0)

    folder = Path(snakemake.output.history).parent
    with exclusive(folder / "training.lock"):
        encoder, pooling = encoders.load(section(params.model), f"models.{wildcards.model}")
        torch.manual_seed(derive(seed, "heads"))
        model = MultiTask(encoder, pooling, classes)
        seconds = snakemake.resources.checkpoint_seconds
        checkpoint = Checkpoint(folder / "checkpoint.pt", mark, seconds)
        kept = Checkpoint(folder / "kept.pt", f"{mark}, reserve {reserve}", seconds)
        history = train(
            model,
            examples,
            section(params.training),
            features,
            seed,
            device,
            checkpoint,
            snakemake.resources.parts,
            kept if snakemake.output.get("trunk") else None,
            reserve,
        )
        model.save(Path(snakemake.output.model).parent)
        footer = tables.provenance(snakemake, device=device.name, precision=device.precision, seed=seed)
        tables.write(snakemake.output.history, TRAINING, history, footer)
        if snakemake.output.get("trunk"):  # no output before: these are deleted when a job is interrupted
            os.replace(kept.path, snakemake.output.trunk)
        kept.remove()
        checkpoint.remove()
