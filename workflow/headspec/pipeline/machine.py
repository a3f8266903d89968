"""Resources of jobs on the machine or cluster of a workflow: GPUs, threads, a warm Python."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from snakemake.settings.types import DeploymentMethod

from headspec.errors import HeadspecError
from headspec.models import devices
from headspec.pipeline import preflight, warm
from headspec.pipeline.refused import Refused
from headspec.provenance import code_hash, hashes

if TYPE_CHECKING:
    from snakemake.workflow import Workflow

    from headspec.config.study import Study
    from headspec.pipeline.layout import Layout


def on_cluster(workflow: Workflow) -> bool:
    """Return whether jobs are submitted, on a dry run according to the profile's scope of `gpu`."""
    scopes = workflow.resource_scopes
    return bool(workflow.non_local_exec or scopes.is_local("gpu") or scopes.is_excluded("gpu"))


def model_resources(workflow: Workflow, layout: Layout) -> tuple[int, int]:
    """Return the GPUs and threads requested by jobs that run a model.

    Submitted jobs request a GPU, unless the profile excludes `gpu` from the resources because there are none.
    Local jobs without a GPU share the cores: the fewer runs, the more threads.
    """
    if workflow.resource_scopes.is_excluded("gpu"):
        return 0, 4
    if on_cluster(workflow) or devices.gpu_count():
        return 1, 2
    return 0, devices.threads_per_job(layout.heavy_runs, workflow.global_resources["_cores"].value or 1)


def share_gpus(workflow: Workflow, study: Study, gpu: int) -> None:
    """Let jobs share a GPU, and turn the limit on GPUs (`--resources gpu=2`) into one on jobs.

    The limit applies to all local jobs together. Submitted jobs request what their models need. `gpu` is the
    number that jobs request, 0 or 1. Raises Refused if training a model needs more GPUs than there are.
    """
    os.environ[devices.JOBS_PER_GPU] = str(study.jobs_per_gpu)
    limit = workflow.global_resources.get("gpu").value  # None without a limit, as in submitted jobs
    if workflow.resource_scopes.is_local("gpu"):
        workflow.global_resources["gpu"] = max(model.gpus for model in study.models.values())
        return
    here = devices.gpu_count()
    if gpu and workflow.is_main_process and not workflow.non_local_exec:
        usable = here if limit is None else min(here, limit)
        try:
            preflight.check_gpus(study, usable)
        except HeadspecError as error:
            raise Refused(f"the study cannot be run:\n{error}") from None
    if limit is not None:
        workflow.global_resources["gpu"] = study.jobs_per_gpu * limit


def pin_environments(workflow: Workflow) -> None:
    """Make the content of a rule's environment a param of the jobs that run in it.

    Snakemake compares environments by records that are lost with `.snakemake`.
    """
    if DeploymentMethod.CONDA not in workflow.deployment_settings.deployment_method:
        return
    envs = code_hash.LIBRARY.parent.parent / "envs"
    for rule in workflow.rules:
        if rule.conda_env:
            rule.set_params(environment=hashes.sha256(envs / Path(str(rule.conda_env)).name))


def warm_up(workflow: Workflow) -> None:
    """Let jobs on this machine start as forks of a process that has imported what they need."""
    jobs = [job for job in workflow.dag.needrun_jobs() if job.output]
    # Snakemake does not quote this path in shell commands
    quoted = sys.executable == shlex.quote(sys.executable)
    if workflow.non_local_exec or (len(jobs) < 2 and quoted):
        return
    models = any("microbatches" in job.rule.resources for job in jobs)
    sys.executable = warm.start([*warm.TABLES, *(warm.MODELS if models else ()), *warm.ANALYSIS])
