"""Settings that limit a study to a given time."""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Iterator
from typing import Any

from headspec.cost import graph, workload
from headspec.cost.passes import WRITE
from headspec.cost.plan import Plan
from headspec.cost.report import plan_of
from headspec.errors import ConfigError
from headspec.models import devices
from headspec.pipeline import preflight, warm
from headspec.progress import duration

#: fewest training and validation examples of a task, samples of importance, and random masks
TRAINING, VALIDATION, SAMPLES, DRAWS = 200, 100, 100, 5
#: sections that are changed
CHANGED = ("tasks", "training", "importance", "pruning")


def fitted(config: dict[str, Any], minutes: float, rate: float | None = None) -> tuple[dict[str, Any], str]:
    """Return sections of a config with which its plan for this machine takes at most `minutes`, and a line.

    While it takes longer, a setting of the costliest kind of pass that still has one is halved. `rate`, in
    FLOP/s of a job, is measured by default. Raises ConfigError if no setting is left or the study cannot be
    planned here, and HeadspecError like `headspec.pipeline.preflight.check`.
    """
    study = preflight.load(config)
    tasks = preflight.check(study)
    here, gpus = len(os.sched_getaffinity(0)), devices.gpu_count()
    jobs = graph.jobs(study, tasks)
    python = sys.executable if rate else warm.start(warm.PACKAGES)
    plan = plan_of(study, tasks, jobs, here, gpus, rate, python)
    if plan.extent.problems:
        raise ConfigError("--minutes: the study cannot be planned here\n" + "\n".join(plan.extent.problems))
    config = config | _stated(plan)
    while plan.wall > 60 * minutes:
        smaller = next(_halved(config, plan), None)
        if smaller is None:
            raise ConfigError(
                f"--minutes: got {minutes:g}, but the smallest study of these files takes "
                f"{duration(plan.wall)}; allow more minutes, or use a smaller model or fewer files"
            )
        config = smaller
        study = preflight.load(config)
        extent = workload.study_extent(study, preflight.check(study))
        plan = Plan(extent, jobs, plan.speed, plan.measured, here, gpus)
    return {
        key: config[key] for key in CHANGED
    }, f"fitted to {minutes:g} minutes; planned: {duration(plan.wall)}"


def _stated(plan: Plan) -> dict[str, Any]:
    """Return the settings of a study that may be halved, by section; those of tasks are added later."""
    study = plan.extent.study
    train, _ = plan.extent.examples
    samples = min(study.importance.samples, max(train.values()))
    return {
        "training": {"epochs": study.training.epochs, "frozen": {"epochs": study.training.frozen.epochs}},
        "importance": {"samples": samples},
        "pruning": {"fractions": list(study.pruning.fractions), "draws": study.pruning.draws},
    }


def _halved(config: dict[str, Any], plan: Plan) -> Iterator[dict[str, Any]]:
    """Yield configs with one setting halved, of the costliest kind of pass first."""
    train, validation = plan.extent.examples
    cost = plan.seconds.groupby("purpose").sum().sort_values(ascending=False)
    for purpose in cost.index:
        new = copy.deepcopy(config)
        training, pruning = new["training"], new["pruning"]
        if purpose == "train":
            if _halve_tasks(new, "train_examples", train, TRAINING):
                yield new
            elif training["epochs"] > 1:
                training["epochs"] //= 2
                yield new
        elif purpose == "importance" and new["importance"]["samples"] >= 2 * SAMPLES:
            new["importance"]["samples"] //= 2
            yield new
        elif purpose in ("prune", WRITE):
            if pruning["draws"] >= 2 * DRAWS:
                pruning["draws"] //= 2
                yield new
            elif len(pruning["fractions"]) > 2:
                pruning["fractions"] = pruning["fractions"][::2]
                yield new
            elif _halve_tasks(new, "validation_examples", validation, VALIDATION):
                yield new


def _halve_tasks(config: dict[str, Any], key: str, sizes: dict[str, int], fewest: int) -> bool:
    """Halve the examples of the tasks with most of them; return whether there were enough."""
    most = max(sizes.values())
    for name, n in sizes.items():
        if n > most // 2 >= fewest:
            config["tasks"][name][key] = most // 2
    return most // 2 >= fewest
