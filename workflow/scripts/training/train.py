"""Fine-tuning of a run: tokens -> model and training history."""

import os
from pathlib import Path

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.config.sections.training import Training
from headspec.models import saved
from headspec.models.stage import ModelStage
from headspec.progress import stage
from headspec.training import store
from headspec.training.checkpoint import Checkpoint, resumable
from headspec.training.loop import TRAINING, Setup, train
from headspec.training.parallel import on_gpus
from headspec.training.trainable import adapt

snakemake: Snakemake
params, paths = snakemake.params, snakemake.input.tokens
with stage(snakemake, "train {model}/{mixture}/{method}/seed{seed}".format(**snakemake.wildcards)):
    job = ModelStage(snakemake)
    examples, classes = job.examples(params.tasks, paths), job.classes(params.tasks, paths)
    training = Training(**params.training)
    features = reference = None
    if params.trains == "classifiers":
        stored = {Path(path).stem: tables.read(path) for path in snakemake.input.features}
        features = {task: examples[task].vectors(frame) for task, frame in stored.items()}
    if params.trains != "all":
        reference = job.reference()
    setup = Setup(examples, training, job.seed, job.device, job.microbatches, features)
    reserve = params.get("reserve", 0.0)

    folder = Path(snakemake.output.history).parent
    with resumable(job, folder / "checkpoint.pt", "tasks") as checkpoint:
        model = job.pretrained(classes)
        fingerprint = f"{checkpoint.fingerprint}, reserve {reserve}"
        trunk_checkpoint = Checkpoint(folder / "kept.pt", fingerprint, checkpoint.seconds, job.record)
        trunk = trunk_checkpoint if snakemake.output.get("trunk") else None
        stored_run = store.entry(
            job,
            model,
            snakemake.input,
            tasks=params.tasks,
            training=params.training,
            origin=reference,
            reserve=reserve if trunk else None,
            code=params.code,
        )
        # by an earlier attempt, perhaps with other threads or GPUs
        resumed = checkpoint.path.exists() or trunk_checkpoint.path.exists()
        history = stored_run.take(folder, trunk)
        if history is None:
            if params.trains == "adapters":
                adapt(model, training.lora.rank, training.lora.layers, job.seed, job.device)
            history = on_gpus(job.gpus, folder, train)(model, setup, checkpoint, trunk, reserve)
            model.save(folder / "model", reference, snakemake)
        tables.write(snakemake.output.history, TRAINING, history, job.footer())
        if trunk:  # not earlier: Snakemake deletes the outputs of an interrupted job
            os.replace(trunk_checkpoint.path, snakemake.output.trunk)
        if not resumed:
            stored_run.put({*snakemake.output, *map(str, saved.paths(folder / "model"))})
        trunk_checkpoint.remove()
