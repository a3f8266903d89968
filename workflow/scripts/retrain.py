"""Train one run from a branch to its end: each task moving its own heads, or adapters in their place."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

import torch

from headspec import devices, encoders, tables
from headspec.batching import Examples
from headspec.iat import Own, owned_heads, retrain
from headspec.lora import LoRA
from headspec.maps import importance_map
from headspec.multitask import MultiTask
from headspec.progress import stage
from headspec.settings import section
from headspec.training import TRAINING, Checkpoint, exclusive, fingerprint

wildcards, params = snakemake.wildcards, snakemake.params
with stage(snakemake.log[0], "train {model}/{mixture}/{method}/seed{seed}".format(**wildcards)):
    device = devices.prepare(params.precision, snakemake.threads, snakemake.resources.parts)
    paths, seed = snakemake.input.encoded, int(wildcards.seed)
    examples = {t: Examples(tables.read(p)) for t, p in zip(params.tasks, paths, strict=True)}
    classes = {t: tables.footer(p)["classes"] for t, p in zip(params.tasks, paths, strict=True)}
    settings = [params.tasks, params.model, params.training, params.variant, params.projections]
    settings += [device.precision, seed]

    scores = tables.read(snakemake.input.importance)
    maps = {task: importance_map(scores, task) for task in params.tasks}
    kind, alpha = params.variant["heads"], params.variant["alpha"]
    heads = owned_heads(maps, "top" if kind == "lora" else kind, alpha, seed)
    restriction = LoRA(heads, params.projections, seed) if kind == "lora" else Own(heads, params.projections)

    folder = Path(snakemake.output.history).parent
    with exclusive(folder / "training.lock"):
        encoder, pooling = encoders.load(section(params.model), f"models.{wildcards.model}")
        model = MultiTask(encoder, pooling, classes)
        mark = fingerprint([settings, params.version, params.code], snakemake.input)
        checkpoint = Checkpoint(folder / "checkpoint.pt", mark, snakemake.resources.checkpoint_seconds)
        history = retrain(
            model,
            examples,
            section(params.training),
            restriction,
            seed,
            device,
            torch.load(snakemake.input.state, map_location="cpu", weights_only=True),
            checkpoint,
            snakemake.resources.parts,
        )
        model.save(folder / "model")
        footer = tables.provenance(snakemake, device=device.name, precision=device.precision, seed=seed)
        tables.write(snakemake.output.history, TRAINING, history, footer)
        checkpoint.remove()
