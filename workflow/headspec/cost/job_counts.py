"""The number of jobs of a study in each stage."""

from __future__ import annotations

from headspec.config.runs import Run
from headspec.config.study import Study
from headspec.pipeline.layout import Layout


def jobs(study: Study) -> dict[str, int]:
    """Number of jobs in each stage of a study that has no results yet."""
    return {rule: len(outputs) for rule, outputs in Layout(study).jobs().items()}


def frozen_features(runs: list[Run]) -> set[tuple[str, str]]:
    """(model, task) of every training set whose features frozen runs learn from."""
    return {(run.model, task) for run in runs if run.method == "frozen" for task in run.tasks}


def of_stage(runs: list[Run], stage: str) -> list[Run]:
    """Those of `runs` that have a job in `stage`: pruning compares tasks, so single-task runs have none."""
    return [run for run in runs if stage != "prune" or run.method != "single"]
