"""The jobs of a study without results, as the rules of the workflow make them in an empty folder."""

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from headspec.config.study import Study
from headspec.data.planned import Planned
from headspec.pipeline import dag
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
    """Return the row of a rule in the plan; all figures share one, and so do a rule and its variants."""
    if rule.startswith("figure_"):
        return "figures"
    return rule.removesuffix("_and_keep").removesuffix("_after")


def jobs(study: Study, plan: Planned) -> list[PlannedJob]:
    """Return all jobs with outputs, in the order of rules and outputs; `plan` has the tasks as read."""
    snakefile = next(path for path in SNAKEFILES if path.exists())
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "config.yaml")
        config.write_text("{}")
        with dag.opened(snakefile, Path(folder), config, layout=Layout(study, plan)) as workflow:
            rules = list(workflow.rules)
            for rule in rules:  # jobs need no params, which hash code and ask for versions of models
                names = list(rule.params.keys())
                rule.params.clear()
                rule.set_params(**dict.fromkeys(names))
            dag.plan(workflow)
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
