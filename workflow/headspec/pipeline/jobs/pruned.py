"""Inputs and params of the rules for the section `gates`, as functions of a job."""

from typing import Any

from headspec.config.measures import heads as head_measures
from headspec.config.pruning_methods import PRUNING_METHODS
from headspec.config.runs import OPEN, PrunedRun, Run, penalty
from headspec.config.sections.gates import Gates
from headspec.config.study import plain
from headspec.config.values import IMPORTANCE, WHOLE
from headspec.pipeline.jobs.job import Job
from headspec.pipeline.layout import Layout

# --- of a study


def roles_before(layout: Layout) -> list[str]:
    """Return the roles of the heads of each run that is pruned."""
    return layout.run_files(
        dict.fromkeys(each.run for each in layout.study.pruned_runs), "atlas/roles.parquet"
    )


def roles_after(layout: Layout) -> list[str]:
    """Return the roles of the heads that each set keeps, for each run whose model is saved."""
    return [
        layout.result("runs", pruned.path, f"atlas/{kept_for}/roles.parquet")
        for pruned in layout.study.pruned_runs
        if pruned.pruning_method in layout.study.gates.keep_models
        for kept_for in pruned.kept_for
    ]


def methods(layout: Layout) -> list[str]:
    """Return the pruning methods of the study, the whole model first."""
    return [WHOLE, *layout.study.gates.pruning_methods]


def open_ended() -> list[str]:
    """Return the pruning methods whose gates learn without a target number of heads."""
    return [name for name, method in PRUNING_METHODS.items() if method.open_ended]


# --- of a job


def start(job: Job) -> dict[str, str]:
    """Return the model that a pruned run starts from, if it was trained."""
    return {"model": job.run_file("model/classifiers.json")} if job.pruning_method.start == "trained" else {}


def inputs(job: Job) -> dict[str, str]:
    """Return inputs of the rule pruned_run by name: the model, and what determines the heads to keep."""
    method, wildcards, paths = job.pruning_method, job.wildcards, start(job)
    if method.open_ended:
        kept = wildcards.kept if wildcards.kept.startswith(OPEN) else OPEN
        paths["state"] = job.run_file(f"gates/{wildcards.pruning_method}/{wildcards.scope}/{kept}/state.pt")
    if table := _table(job):
        paths["heads"] = job.run_file(table)
    if method.chosen == "copied":
        folder = f"gates/{job.study.gates.source}/{wildcards.scope}/{wildcards.kept}"
        paths["copied"] = job.run_file(f"{folder}/gates.parquet")
    return paths


def _table(job: Job) -> str | None:
    """Return the run's table from which a method chooses heads or their numbers by layer, if any."""
    name, chosen = job.wildcards.pruning_method, job.pruning_method.chosen
    if name == IMPORTANCE or chosen in ("drawn", "plugged"):
        return "importance.parquet"
    return f"atlas/{head_measures.MEASURES[name].table}.parquet" if chosen == "ranked" else None


def rankings(job: Job) -> list[str]:
    """Return the learnt gates that rank the heads of a run's tasks for the atlas.

    Gates that learn a given number of heads keep as many as `pruning.fraction` leaves.
    """
    wildcards, tasks = job.wildcards, tuple(job.tasks)
    run = Run(wildcards.model, wildcards.mixture, tasks, wildcards.method, int(wildcards.seed))
    scope, rest = "per_task" if len(tasks) > 1 else "shared", 1 - job.study.pruning.fraction
    names = head_measures.learnt(job.study.atlas.rankings)
    pruned = [
        PrunedRun(run, name, scope, None if PRUNING_METHODS[name].open_ended else rest) for name in names
    ]
    return job.layout.run_files(pruned, "gates.parquet")


def method(job: Job) -> dict[str, Any]:
    """Return what a job needs to know of its pruning method."""
    return {key: value for key, value in vars(job.pruning_method).items() if key != "label"}


def gates(job: Job) -> dict[str, Any]:
    """Return the section `gates`, with defaults for keys that the pruning method does not use."""
    method, values = job.pruning_method, plain(job.study.gates)
    used = {
        "epochs": True,
        "learning": method.chosen in ("learnt", "stepwise"),
        "learning_rate": method.chosen == "learnt",
        "penalty": method.open_ended,
        "rescorings": method.chosen == "stepwise",
        "attention": values["attention"] and method.chosen not in ("all", "copied"),
    }
    values["penalty"] = penalty(job.wildcards.kept) or values["penalty"]
    kept: dict[str, Any] = plain(Gates(**{key: values[key] for key, is_used in used.items() if is_used}))
    return kept


def samples(job: Job) -> int | None:
    """Return the number of examples per task for importance in `rescored`; None for other methods."""
    return job.study.importance.samples if job.pruning_method.chosen == "stepwise" else None


def measured(job: Job) -> dict[str, Any]:
    """Return the atlas measure that ranks the heads, and its number of examples; empty if none does."""
    name = job.wildcards.pruning_method
    if job.pruning_method.chosen != "ranked" or name == IMPORTANCE:
        return {}
    return {"measure": name, "examples": job.study.atlas.examples}
