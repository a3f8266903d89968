"""Branch of a run: trunk and tokens -> state where IAT starts, and importance there."""

from pathlib import Path

import numpy as np
from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.config.sections.training import Training
from headspec.heads.importance import IMPORTANCE, importance
from headspec.models.stage import ModelStage
from headspec.progress import stage
from headspec.seeds import derive
from headspec.training.checkpoint import Checkpoint, read, resumable
from headspec.training.iat import branch
from headspec.training.loop import Setup
from headspec.training.parallel import on_gpus
from headspec.training.trainable import adapt

snakemake: Snakemake
wildcards, params, paths = snakemake.wildcards, snakemake.params, snakemake.input.tokens
title = "branch {model}/{mixture}/{method}/seed{seed} at {delta}".format(**wildcards)
with stage(snakemake, title):
    job = ModelStage(snakemake)
    examples, classes = job.examples(params.tasks, paths), job.classes(params.tasks, paths)
    setup = Setup(examples, Training(**params.training), job.seed, job.device, job.microbatches)
    output, trunk = Path(snakemake.output.state), snakemake.input.trunk
    with resumable(job, output.parent / "checkpoint.pt", "tasks") as checkpoint:
        model = job.pretrained(classes)
        if params.trains == "adapters":
            adapt(model, setup.settings.lora.rank, setup.settings.lora.layers, job.seed, job.device)
        trained = on_gpus(job.gpus, output.parent, branch)
        state = trained(model, setup, float(wildcards.delta), read(trunk), checkpoint)
        rng = np.random.default_rng(derive(job.seed, "importance samples"))
        frame = importance(model, examples, params.samples, rng, job.device)
        Checkpoint(output, checkpoint.fingerprint, 0, job.record).save(state)
        tables.write(snakemake.output.importance, IMPORTANCE, frame, job.footer())
