"""Branch of a run: trunk and tokens -> state where IAT begins, and importance there."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

import numpy as np

from headspec import tables
from headspec.config.sections.training import Training
from headspec.heads.importance import IMPORTANCE, importance
from headspec.models.multitask import MultiTask
from headspec.models.stage import ModelStage
from headspec.progress import stage
from headspec.seeds import derive
from headspec.training import parallel
from headspec.training.checkpoint import Checkpoint, exclusive, fingerprint, read
from headspec.training.iat import branch

wildcards, params, paths = snakemake.wildcards, snakemake.params, snakemake.input.tokens
title = "branch {model}/{mixture}/{method}/seed{seed} at {delta}".format(**wildcards)
with stage(snakemake, title):
    job = ModelStage(snakemake)
    examples, classes = job.examples(params.tasks, paths), job.classes(params.tasks, paths)
    settings = [params.tasks, params.model, params.training, job.device.precision, job.seed, wildcards.delta]
    output = Path(snakemake.output.state)
    with exclusive(output.parent / "training.lock"):
        encoder, pooling = job.pretrained()
        model = MultiTask(encoder, pooling, classes)
        identity = fingerprint([settings, params.version, params.code], snakemake.input)
        checkpoint = Checkpoint(
            output.parent / "checkpoint.pt", identity, snakemake.resources.checkpoint_seconds
        )
        state = parallel.run(
            job.gpus,
            output.parent,
            branch,
            model,
            examples,
            Training.from_params(params.training),
            float(wildcards.delta),
            job.seed,
            job.device,
            read(snakemake.input.trunk),
            checkpoint,
            job.microbatches,
        )
        rng = np.random.default_rng(derive(job.seed, "importance samples"))
        frame = importance(model, examples, params.samples, rng, job.device)
        Checkpoint(output, identity, 0).save(state)
        tables.write(snakemake.output.importance, IMPORTANCE, frame, job.footer())
        checkpoint.remove()
