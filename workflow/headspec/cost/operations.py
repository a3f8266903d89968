"""The floating-point operations of the jobs of a study.

``python -m headspec.cost.operations`` reads the config of a study, and rules and wildcards of jobs, as JSON,
and prints their operations as JSON, for the view of a run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping

from headspec.config.methods import prompts
from headspec.cost import graph, workload
from headspec.cost.stages import STAGES, Load, Passes
from headspec.cost.throughput import PASSES
from headspec.cost.workload import Extent
from headspec.pipeline import preflight


def loads(extent: Extent, stage: str, wildcards: Mapping[str, str]) -> list[Load]:
    """What passes through the encoder in a job; nothing if it runs no model, or an unknown one."""
    if stage not in STAGES or not extent.knows(wildcards):
        return []
    return list(STAGES[stage].loads(Passes(extent, wildcards)))


def of_job(extent: Extent, rule: str, wildcards: Mapping[str, str]) -> float | None:
    """Floating-point operations of a job; None if it runs no model, or they are not known here."""
    passed = loads(extent, stage := graph.stage(rule), wildcards)
    return sum(_operations(extent, stage, wildcards, load) for load in passed) if passed else None


def operations(extent: Extent, jobs: Iterable[graph.Job]) -> dict[tuple[str, str, str, str], float]:
    """(model, stage, pass of `PASSES`, task): floating-point operations of all its jobs."""
    total: dict[tuple[str, str, str, str], float] = {}
    for job in jobs:
        for load in loads(extent, job.stage, job.wildcards):
            key = job.wildcards["model"], job.stage, load.kind, load.task
            total[key] = total.get(key, 0.0) + _operations(extent, job.stage, job.wildcards, load)
    return total


def _operations(extent: Extent, stage: str, wildcards: Mapping[str, str], load: Load) -> float:
    prompted, evaluated = prompts([wildcards.get("method", "")]), load.kind == "prune"
    once = evaluated and STAGES[stage].under_masks
    of_example = extent.forward(wildcards["model"], load.task, prompted, evaluated, once)
    return PASSES[load.kind] * load.examples * of_example


def main() -> None:
    asked = json.load(sys.stdin)
    extent = workload.read(preflight.load(asked["config"]))
    print(json.dumps([of_job(extent, rule, wildcards) for rule, wildcards in asked["jobs"]]))


if __name__ == "__main__":
    main()
