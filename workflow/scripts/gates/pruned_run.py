"""A run pruned to a number of heads and trained further: model, ranking, tokens -> gates and predictions."""

import shutil
from pathlib import Path

import numpy as np
from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.atlas.cumulative import half_maps
from headspec.atlas.sample import sampled
from headspec.config.sections.gates import Gates
from headspec.config.sections.training import Training
from headspec.heads.pruning import EVALUATION
from headspec.heads.ranking import importance_map
from headspec.models.stage import ModelStage
from headspec.progress import stage
from headspec.training.checkpoint import read, resumable
from headspec.training.gated import GATES_OF_RUN, last_kept
from headspec.training.parallel import on_gpus
from headspec.training.pruned_run import evaluation, finish, prepared

snakemake: Snakemake
params, files = snakemake.params, snakemake.input


def ranked_on(task: str, available: int) -> np.ndarray:
    """Return rows of the validation examples that ranked the heads, in even folds."""
    if not params.measured:
        return np.empty(0, dtype=int)
    return sampled(task, available, params.measured["examples"])[::2]


with stage(snakemake, f"pruned run {snakemake.output.gates}"):
    job, folder = ModelStage(snakemake), Path(snakemake.output.gates).parent
    gates = Gates.from_params(params.gates)
    training = Training(**params.training)
    held_out = job.examples(params.tasks, files.validation)
    maps = copied = None
    if files.get("heads"):
        table, measured = tables.read(files.heads), params.measured
        if measured:
            maps = {task: half_maps(table, task, measured["measure"])[0] for task in params.tasks}
        else:
            maps = {task: importance_map(table, task) for task in params.tasks}
    settings = ("tasks", "method", "gates", "fraction", "samples")
    with resumable(job, folder / "checkpoint.pt", *settings) as checkpoint:
        model, setup, plan = prepared(job, files.tokens, gates, training)
        if files.get("copied"):
            copied = last_kept(tables.read(files.copied), plan.sets)
        state, gating = read(files.state) if files.get("state") else None, plan.gating(maps, copied)
        kept, frame = on_gpus(job.gpus, folder, finish)(model, setup, gating, state, checkpoint)
        rows = {
            task: np.setdiff1d(np.arange(len(task_examples)), ranked_on(task, len(task_examples)))
            for task, task_examples in held_out.items()
        }
        evaluated = evaluation(model, held_out, rows, plan.sets, kept, job.device)
        shutil.rmtree(folder / "model", ignore_errors=True)  # from an earlier job, with other gates
        if snakemake.output.get("model"):
            model.save(folder / "model", job=snakemake)
        footer = job.footer()
        tables.write(snakemake.output.evaluation, EVALUATION, evaluated, footer)
        tables.write(snakemake.output.gates, GATES_OF_RUN, frame, footer)
