"""The jobs that the workflow's rules make for a study in an empty folder, and their operations.

``python -m headspec.cost.graph`` reads, as JSON, a study's config and the rules and wildcards of jobs, and
prints their floating-point operations as JSON, for the view of a run.
"""

import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from headspec.config.methods import prompts
from headspec.config.study import Study
from headspec.config.values import ZERO
from headspec.cost import workload
from headspec.cost.passes import PASSES, STAGES, WRITE, Load, StageJob
from headspec.cost.workload import Extent
from headspec.data.tasks_read import TasksRead
from headspec.pipeline import preflight, state
from headspec.pipeline.layout import Layout
from headspec.pipeline.state import SNAKEFILES


class PlannedJob(NamedTuple):
    """A job of the workflow."""

    rule: str
    wildcards: dict[str, str]
    outputs: tuple[str, ...]

    @property
    def stage(self) -> str:
        return stage(self.rule)


def stage(rule: str) -> str:
    """Return the row of a rule in the plan; all figures share one, as do a rule and its variants."""
    if rule.startswith("figure_"):
        return "figures"
    return rule.removesuffix("_and_keep").removesuffix("_after")


def jobs(study: Study, plan: TasksRead) -> list[PlannedJob]:
    """Return all jobs with outputs, in the order of rules and outputs; `plan` has the tasks read so far."""
    snakefile = next(path for path in SNAKEFILES if path.exists())
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "config.yaml")
        config.write_text("{}")
        with state.opened(snakefile, Path(folder), config, layout=Layout(study, plan)) as workflow:
            rules = list(workflow.rules)
            for rule in rules:  # no params, which would hash code and look up versions of models
                names = list(rule.params.keys())
                rule.params.clear()
                rule.set_params(**dict.fromkeys(names))
            state.plan(workflow)
        return _in_order(rules, workflow.dag.jobs)


def _in_order(rules: Iterable[Any], jobs: Iterable[Any]) -> list[PlannedJob]:
    """Return Snakemake's jobs as planned jobs."""
    place = {rule.name: i for i, rule in enumerate(rules)}
    ours = [
        PlannedJob(job.rule.name, dict(job.wildcards.items()), tuple(map(str, job.output)))
        for job in jobs
        if job.output
    ]
    return sorted(ours, key=lambda job: (place[job.rule], job.outputs))


def by_stage(jobs: Iterable[PlannedJob]) -> dict[str, list[PlannedJob]]:
    """Return the jobs of each stage."""
    stages: dict[str, list[PlannedJob]] = {}
    for job in jobs:
        stages.setdefault(job.stage, []).append(job)
    return stages


def loads(extent: Extent, stage: str, wildcards: Mapping[str, str]) -> Iterator[tuple[Load, float]]:
    """Yield the passes of a job with their operations; none if model or tasks are unknown or unused."""
    if stage not in STAGES or not extent.knows(wildcards):
        return
    job = StageJob(extent.study, extent.layout, wildcards, *extent.examples, extent.heads)
    prompted = prompts([wildcards.get("method", "")])
    for load in STAGES[stage].loads(job):
        evaluated = load.purpose == "prune"
        replaced = stage in ("prune", "listed") and extent.study.pruning.ablation != ZERO
        once = evaluated and STAGES[stage].under_masks and not replaced
        example = extent.forward(wildcards["model"], load.task, prompted, evaluated, once)
        yield load, PASSES[load.purpose] * load.examples * example
        if evaluated and prompted and (written := extent.written(wildcards["model"], load.task)):
            yield load._replace(purpose=WRITE), load.examples * written


def job_operations(extent: Extent, rule: str, wildcards: Mapping[str, str]) -> float | None:
    """Return the floating-point operations of a job; None if it runs no model, or they are unknown."""
    counts = [count for _, count in loads(extent, stage(rule), wildcards)]
    return sum(counts) if counts else None


def operations(extent: Extent, jobs: Iterable[PlannedJob]) -> pd.Series:
    """Return the floating-point operations of all jobs, by model, stage, purpose of the pass and task."""
    rows = [
        (job.wildcards["model"], job.stage, load.purpose, load.task, count)
        for job in jobs
        for load, count in loads(extent, job.stage, job.wildcards)
    ]
    levels = ["model", "stage", "purpose", "task"]
    frame = pd.DataFrame(rows, columns=[*levels, "operations"]).astype({"operations": float})
    return frame.groupby(levels, sort=False)["operations"].sum()


def main() -> None:
    """Print, as JSON, the operations of the jobs named on standard input."""
    asked = json.load(sys.stdin)
    extent = workload.study_extent(preflight.load(asked["config"]))
    print(json.dumps([job_operations(extent, rule, wildcards) for rule, wildcards in asked["jobs"]]))


if __name__ == "__main__":
    main()
