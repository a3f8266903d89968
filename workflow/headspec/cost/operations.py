"""The floating-point operations of the jobs of a study.

``python -m headspec.cost.operations`` reads, as JSON, a study's config and rules and wildcards of jobs, and
prints their operations as JSON, for the view of a run.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping

import pandas as pd

from headspec.config.methods import prompts
from headspec.cost import graph, workload
from headspec.cost.passes import PASSES, STAGES, Load, StageJob
from headspec.cost.workload import Extent
from headspec.pipeline import preflight


def loads(extent: Extent, stage: str, wildcards: Mapping[str, str]) -> Iterator[tuple[Load, float]]:
    """Yield the passes of a job, with their operations; none if it runs no model, or an unknown one."""
    if stage not in STAGES or not extent.knows(wildcards):
        return
    job = StageJob(extent.study, extent.layout, wildcards, *extent.examples, extent.heads)
    prompted = prompts([wildcards.get("method", "")])
    for load in STAGES[stage].loads(job):
        evaluated = load.purpose == "prune"
        once = evaluated and STAGES[stage].under_masks
        example = extent.forward(wildcards["model"], load.task, prompted, evaluated, once)
        yield load, PASSES[load.purpose] * load.examples * example


def job_operations(extent: Extent, rule: str, wildcards: Mapping[str, str]) -> float | None:
    """Return the floating-point operations of a job; None if it runs no model, or they are unknown."""
    counts = [count for _, count in loads(extent, graph.stage(rule), wildcards)]
    return sum(counts) if counts else None


def operations(extent: Extent, jobs: Iterable[graph.PlannedJob]) -> pd.Series:
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
    """Print the operations of the jobs that standard input asks for, as JSON."""
    asked = json.load(sys.stdin)
    extent = workload.study_extent(preflight.load(asked["config"]))
    print(json.dumps([job_operations(extent, rule, wildcards) for rule, wildcards in asked["jobs"]]))


if __name__ == "__main__":
    main()
