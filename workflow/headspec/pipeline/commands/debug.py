"""``headspec debug``: run one job of a study in the terminal, so that breakpoints work."""

from __future__ import annotations

import os
import runpy
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headspec.errors import HeadspecError, MissingError, listing
from headspec.pipeline import state
from headspec.provenance import code_hash, guard

if TYPE_CHECKING:
    from snakemake.workflow import Workflow


def run_job(path: Path, trust: bool = False) -> None:
    """Run the job that makes the result at `path` in this process, writing to a new temporary folder.

    Raises HeadspecError if the study was not begun by this user here (with `trust`, by anyone anywhere), its
    workflow is not the imported one, no job makes the result, or an input is missing.
    """
    from snakemake.exceptions import MissingRuleException

    path = Path(os.path.abspath(path))
    results = next((folder for folder in path.parents if folder.parent.name == "results"), path)
    if (start := state.last_start(results, trust)) is None:
        raise HeadspecError(
            f"{path}: expected a file in results/<study> of a study that you have begun in this folder by "
            "snakemake; one that was begun elsewhere is run with --trust"
        )
    target = str(path.relative_to(start.folder))
    os.environ.pop("HEADSPEC_STORE", None)  # training would take a finished run from there
    cores = len(os.sched_getaffinity(0))
    with state.opened(start.snakefile, start.folder, start.config, target, cores) as workflow:
        own = Path(next(iter(workflow.rules)).basedir).resolve().parent
        if own != code_hash.LIBRARY.parent.resolve():
            raise HeadspecError(
                f"{path}: made by the workflow in {own}; for its code, set the variable PYTHONPATH to that"
            )
        try:
            state.plan(workflow)
        except MissingRuleException:
            raise HeadspecError(f"{path}: no job of the study makes it") from None
        job = next(job for job in workflow.dag.jobs if target in job.output)
        folder = tempfile.mkdtemp(prefix="headspec-debug-")
        arguments = _arguments(job, workflow, folder)
        script = Path(job.rule.basedir, job.rule.script.format(params=arguments.params)).resolve()
        print(f"{script}\nwrites to {folder}")
        copy = shutil.copy(script, folder)  # as Snakemake does; the copy's time is that of planning
        runpy.run_path(copy, {"snakemake": arguments})


def _arguments(job: Any, workflow: Workflow, folder: str) -> Any:
    """Return the object `snakemake` for the script of a job that writes to `folder`."""
    from snakemake.iocontainers import Snakemake

    if missing := [name for name in job.input if not Path(name).exists()]:
        raise MissingError(f"{listing(missing, 5)}: missing; run snakemake on the study, which makes it")
    output, log = (
        type(paths)(paths, custom_map=lambda path: os.path.join(folder, path))
        for paths in (job.output, job.log)
    )
    for path in [*output, *log]:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    arguments = Snakemake(
        job.input, output, job.params, job.wildcards, job.threads, job.resources, log, workflow.config,
        job.rule.name, None, job.rule.basedir,
    )  # fmt: skip
    arguments.loaded = guard.loaded()  # by this process, not by the job
    return arguments
