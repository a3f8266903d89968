"""The workflow as Snakemake plans it, in this process, read as a job would: without looking at any file."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.workflow import Workflow

    from headspec.pipeline.layout import Layout


@contextlib.contextmanager
def opened(
    snakefile: Path,
    folder: Path,
    config: Path,
    target: str | None = None,
    cores: int = 1,
    layout: Layout | None = None,
) -> Iterator[Workflow]:
    """Yield the workflow that runs in `folder`: its rules and, after `plan`, its jobs for `target`.

    The workflow of our own rules takes a `layout` as it is, and reads and checks nothing.
    """
    from snakemake.api import SnakemakeApi  # slow to import
    from snakemake.settings import types as settings
    from snakemake.settings.enums import Quietness

    quiet = settings.OutputSettings(quiet={Quietness.ALL})
    with SnakemakeApi(quiet) as snakemake:
        workflow = snakemake.workflow(
            settings.ResourceSettings(cores=cores),
            config_settings=settings.ConfigSettings({"layout": layout} if layout else {}, [config]),
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
