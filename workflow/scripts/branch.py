"""Go on with plain training to where IAT begins, and score the heads there."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

import numpy as np
import torch

from headspec import devices, encoders, tables
from headspec.batching import Examples
from headspec.iat import branch
from headspec.importance import IMPORTANCE, importance
from headspec.multitask import MultiTask
from headspec.progress import stage
from headspec.seeds import derive
from headspec.settings import section
from headspec.training import Checkpoint, exclusive, fingerprint

wildcards, params = snakemake.wildcards, snakemake.params
title = "branch {model}/{mixture}/{method}/seed{seed} at {delta}".format(**wildcards)
with stage(snakemake.log[0], title):
    device = devices.prepare(params.precision, snakemake.threads, snakemake.resources.parts)
    paths, seed = snakemake.input.encoded, int(wildcards.seed)
    examples = {t: Examples(tables.read(p)) for t, p in zip(params.tasks, paths, strict=True)}
    classes = {t: tables.footer(p)["classes"] for t, p in zip(params.tasks, paths, strict=True)}
    settings = [params.tasks, params.model, params.training, device.precision, seed, wildcards.delta]
    output = Path(snakemake.output.state)
    with exclusive(output.parent / "training.lock"):
        encoder, pooling = encoders.load(section(params.model), f"models.{wildcards.model}")
        model = MultiTask(encoder, pooling, classes)
        mark = fingerprint([settings, params.version, params.code], snakemake.input)
        checkpoint = Checkpoint(output.parent / "checkpoint.pt", mark, snakemake.resources.checkpoint_seconds)
        state = branch(
            model,
            examples,
            section(params.training),
            float(wildcards.delta),
            seed,
            device,
            torch.load(snakemake.input.trunk, map_location="cpu", weights_only=True),
            checkpoint,
            snakemake.resources.parts,
        )
        rng = np.random.default_rng(derive(seed, "importance samples"))
        frame = importance(model, examples, params.samples, rng, device)
        Checkpoint(output, mark, 0).save(state)
        footer = tables.provenance(snakemake, device=device.name, precision=device.precision, seed=seed)
        tables.write(snakemake.output.importance, IMPORTANCE, frame, footer)
        checkpoint.remove()
