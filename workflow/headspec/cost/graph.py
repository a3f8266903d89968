"""The jobs of a study that has no results yet, as the rules of the workflow make them.

Snakemake lists them in an empty folder and in the mode of a job that it has started, in which it asks for no
file: neither what has been made, nor what is missing here, nor another Snakemake at work matters.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from headspec.config.study import Study
from headspec.data.planned import Planned
from headspec.pipeline.state import SNAKEFILES

#: the study whose jobs are listed, and its tasks: the workflow takes these, and reads and checks nothing
listed: tuple[Study, Planned] | None = None


class Job(NamedTuple):
    """A job of the workflow."""

    rule: str
    wildcards: dict[str, str]
    outputs: tuple[str, ...]

    @property
    def stage(self) -> str:
        return stage(self.rule)


def stage(rule: str) -> str:
    """The row of a rule in the plan: all `figures` are one, and so are a rule and its variants."""
    if rule.startswith("figure_"):
        return "figures"
    return rule.removesuffix("_and_keep").removesuffix("_after")


def jobs(study: Study, plan: Planned) -> list[Job]:
    """All jobs, in the order of the rules and of their outputs; targets, which have no outputs, are left out.

    Parameters
    ----------
    plan : the tasks as they were read
    """
    global listed
    from snakemake.api import SnakemakeApi  # slow to import
    from snakemake.settings import types as settings
    from snakemake.settings.enums import Quietness

    quiet = settings.OutputSettings(quiet={Quietness.ALL})
    mode = settings.WorkflowSettings(exec_mode=settings.ExecMode.SUBPROCESS)
    snakefile = next(path for path in SNAKEFILES if path.exists())
    listed = study, plan
    try:
        with tempfile.TemporaryDirectory() as folder, SnakemakeApi(quiet) as snakemake:
            Path(folder, "config.yaml").write_text("{}")
            workflow = snakemake.workflow(
                settings.ResourceSettings(cores=1),
                snakefile=snakefile,
                workdir=Path(folder),
                workflow_settings=mode,
            )
            dag = workflow.dag(settings.DAGSettings(forceall=True))
            rules = list(workflow._workflow.rules)
            for rule in rules:  # jobs need no params, which hash code and ask for versions of models
                names = list(rule.params.keys())
                rule.params.clear()
                rule.set_params(**dict.fromkeys(names))
            with contextlib.redirect_stdout(io.StringIO()):
                dag.printrulegraph()  # of all that lists the jobs, the least work
            return _in_order(rules, workflow._workflow.dag.jobs)
    finally:
        listed = None


def _in_order(rules: Iterable, jobs: Iterable) -> list[Job]:
    """Jobs of Snakemake as ours."""
    place = {rule.name: i for i, rule in enumerate(rules)}
    ours = [
        Job(job.rule.name, dict(job.wildcards.items()), tuple(map(str, job.output)))
        for job in jobs
        if job.output
    ]
    return sorted(ours, key=lambda job: (place[job.rule], job.outputs))


def by_stage(jobs: Iterable[Job]) -> dict[str, list[Job]]:
    """Stage: its jobs."""
    stages: dict[str, list[Job]] = {}
    for job in jobs:
        stages.setdefault(job.stage, []).append(job)
    return stages
