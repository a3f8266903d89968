"""Snakemake and its jobs as forks of one process, which has imported what is slow.

Jobs of a tiny study take milliseconds, and their imports seconds.
"""

import functools
import os
from pathlib import Path

from headspec.pipeline import warm

#: Snakemake, and what it imports only when it plans
SNAKEMAKE = (
    "snakemake.cli", "snakemake.script", "snakemake.workflow", "snakemake.report.html_reporter",
    "snakemake.storage", "docutils.core", "nbformat", "pyarrow.dataset", "requests", "rich.live",
    "rich.table", "smart_open", "beforehand",
)  # fmt: skip
SERVER = Path(__file__).with_name("server")  # of beforehand.py, and of sitecustomize.py, which obeys FAULT


@functools.cache
def python() -> str:
    """A command that runs Python as `python` does. The process that is forked ends with the caller's.

    With a folder CALLED in the environment, forks note the functions that they call in it.
    """
    import pytest  # a release is tried without it

    environment = warm._environment() | {"PYTHONPATH": str(SERVER), "CALLED": os.environ.get("CALLED", "")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(warm, "_environment", lambda: environment)
        return warm.start([*warm.PACKAGES, *SNAKEMAKE], nested=True)
