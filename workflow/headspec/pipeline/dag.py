"""The workflow as Snakemake plans it, in this process, read as a job would: without looking at any file."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.workflow import Workflow


@contextlib.contextmanager
def opened(
    snakefile: Path, folder: Path, config: Path, target: str | None = None, cores: int = 1
) -> Iterator[Workflow]:
    """Yield the workflow that runs in `folder`: its rules and, after `plan`, its jobs for `target`."""
    from snakemake.api import SnakemakeApi  # slow to import
    from snakemake.settings import types as settings
    from snakemake.settings.enums import Quietness

    quiet = settings.OutputSettings(quiet={Quietness.ALL})
    with SnakemakeApi(quiet) as snakemake:
        workflow = snakemake.workflow(
            settings.ResourceSettings(cores=cores),
            config_settings=settings.ConfigSettings(configfiles=[config]),
            snakefile=snakefile,
            workdir=folder,
            workflow_settings=settings.WorkflowSettings(exec_mode=settings.ExecMode.SUBPROCESS),
        )
        workflow.dag(settings.DAGSettings(targets={target} if target else set(), forceall=True))
        yield workflow._workflow  # the interface gives no access to rules and jobs


def plan(workflow: Workflow) -> None:
    """List the jobs of the workflow as its `dag`."""
    with contextlib.redirect_stdout(io.StringIO()):
        workflow.printrulegraph()  # the least work that lists the jobs
