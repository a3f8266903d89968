"""Folders that all processes of a run of the tests share."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

#: environment variable with the folder of a run of the tests
ROOT = "PYTEST_SHARED"


def root() -> Path:
    """Return the folder of a run of the tests; outside of one, a new folder."""
    return Path(os.environ.get(ROOT) or tempfile.mkdtemp(prefix="headspec-tests-"))


def folder(name: str, fill: Callable[[Path], object]) -> Path:
    """Return a shared folder, filled by the process that is first."""
    from support import hangs  # with packages of tests, which a release is tried without

    path = root() / name
    filled = path.with_name(f"{name}.filled")
    with hangs.waiting():
        held = FileLock(path.with_name(f"{name}.lock")).acquire()
    with held:
        if not filled.exists():
            shutil.rmtree(path, ignore_errors=True)  # half filled, if `fill` failed
            fill(path)
            filled.touch()
    return path
