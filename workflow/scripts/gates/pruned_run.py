"""A run pruned to a number of heads and trained on: model, ranking, tokens -> gates and predictions."""

import shutil
from pathlib import Path

import numpy as np
from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.atlas.cumulative import half_maps
from headspec.atlas.sample import sampled
from headspec.config.pruning_method import PruningMethod
from headspec.config.sections.gates import Gates
from headspec.config.sections.training import Training
from headspec.heads.pruning import EVALUATION
from headspec.heads.ranking import importance_map
from headspec.models.stage import ModelStage
from headspec.progress import stage
from headspec.training import parallel
from headspec.training.checkpoint import read, resumable
from headspec.training.loop import Setup
from headspec.training.pruned.gated import GATES_OF_RUN, Sets, last_kept
from headspec.training.pruned.kept_heads import count_kept, fixed_layers
from headspec.training.pruned.pruned_run import Plan, evaluation, finish, learning_steps, starting_model

snakemake: Snakemake
params, files = snakemake.params, snakemake.input


def ranked_on(task: str, available: int) -> np.ndarray:
    """Return rows of the validation examples that ranked the heads, in even folds."""
    if not params.measured:
        return np.empty(0, dtype=int)
    return sampled(task, available, params.measured["examples"])[::2]


with stage(snakemake, f"pruned run {snakemake.output.gates}"):
    job = ModelStage(snakemake)
    method = PruningMethod(label="", **params.method)
    examples = job.examples(params.tasks, files.train)
    unused = {"learning": 1.0, "penalty": 1.0, "attention": []}
    gates, training = Gates.from_params({**unused, **params.gates}), Training.from_params(params.training)
    epochs, learning = learning_steps(examples, training, gates, method.start)
    training = training.model_copy(update={"epochs": epochs})
    sets = Sets(params.tasks, snakemake.wildcards.scope == "per_task")
    held_out = job.examples(params.tasks, files.validation)
    maps = copied = None
    if files.get("heads"):
        table, measured = tables.read(files.heads), params.measured
        if measured:
            maps = {task: half_maps(table, task, measured["measure"])[0] for task in params.tasks}
        else:
            maps = {task: importance_map(table, task) for task in params.tasks}
    if files.get("copied"):
        copied = last_kept(tables.read(files.copied), sets)
    folder = Path(snakemake.output.gates).parent
    setup = Setup(examples, training, job.seed, job.device, job.microbatches)
    settings = ("tasks", "method", "gates", "samples")
    with resumable(job, folder / "checkpoint.pt", *settings) as checkpoint:
        model = starting_model(job, method, job.classes(params.tasks, files.train), params.trains == "all")
        asked = snakemake.wildcards.kept
        fixed = fixed_layers(model.gates, gates.attention)
        exists = model.gates.exists
        always, free = (int(exists[layers].sum()) for layers in (fixed, ~fixed))
        count = None if asked.startswith("open") else count_kept(float(asked), free, always)
        plan = Plan(method, gates, params.samples, sets, exists, fixed, count, learning, job.seed)
        state, gating = read(files.state) if files.get("state") else None, plan.gating(maps, copied)
        kept, frame = parallel.run(job.gpus, folder, finish, model, setup, gating, state, checkpoint)
        rows = {
            task: np.setdiff1d(np.arange(len(task_examples)), ranked_on(task, len(task_examples)))
            for task, task_examples in held_out.items()
        }
        evaluated = evaluation(model, held_out, rows, sets, kept, job.device)
        shutil.rmtree(folder / "model", ignore_errors=True)  # from an earlier job, with other gates
        if snakemake.output.get("model"):
            model.save(folder / "model")
        footer = job.footer()
        tables.write(snakemake.output.evaluation, EVALUATION, evaluated, footer)
        tables.write(snakemake.output.gates, GATES_OF_RUN, frame, footer)
