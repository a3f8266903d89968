"""Code and inputs of a job: those that it was planned with, from its start until its results are there."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headspec import code_hash, digests, files
from headspec.errors import ChangedError

AGAIN = "Nothing of it is kept. Start snakemake again, which plans with what is there now"
#: seconds by which times of files may differ from when they were written
CLOCK = 0.1


@contextmanager
def unchanged(job: Any) -> Iterator[None]:
    """Let a job publish files only if it runs the code that it was planned with, and its inputs stay.

    Jobs are planned with a hash of all code that they reach (`code_hash.closure`) and load it when they
    start, perhaps hours later. What a job has loaded is what it was planned with if the files say the same
    now and were not changed since the job began. Code that is edited after it was loaded does no harm here:
    the next start of snakemake makes the results again.

    Parameters
    ----------
    job : the object `snakemake` of a rule's script

    Raises
    ------
    ChangedError
        Code was edited between planning and loading, or an input was replaced while the job ran: at the
        start, or where a file would be published.
    """
    code = getattr(job.params, "code", {})
    inputs = {path: (digests.signature(path), digests.mark(path)) for path in set(job.input)}
    began = os.stat(sys.argv[0]).st_mtime if code else 0.0  # Snakemake has just written it
    for name, planned in code.items():
        path = code_hash.LIBRARY.parent / name
        if _current(name) != planned or digests.signature(path)[3] / 1e9 > began - CLOCK:
            raise ChangedError(f"{_shown(name)} was edited after this job was planned. {AGAIN}")
    # processes for several GPUs load everything anew
    later = [name for name in code if not _loaded(name) or job.resources.get("gpu", 0) > 1]
    unloaded = {name: digests.signature(code_hash.LIBRARY.parent / name) for name in later}

    def check() -> None:
        for name, before in unloaded.items():
            if _signature(code_hash.LIBRARY.parent / name) != before:
                raise ChangedError(f"{_shown(name)} was edited while this job ran. {AGAIN}")
        for path, (before, mark) in inputs.items():
            now = _signature(path)
            # a new link to the file changes the last of the times
            if now[:3] != before[:3] or (now != before and digests.mark(path) != mark):
                raise ChangedError(f"{path} was replaced while this job ran. {AGAIN}")

    files.before_publishing.append(check)
    try:
        yield
    finally:
        files.before_publishing.remove(check)


def _current(name: str) -> str | None:
    with contextlib.suppress(OSError, SyntaxError, ValueError):
        return code_hash.current(name)
    return None


def _signature(path: str | Path) -> digests.Signature:
    with contextlib.suppress(OSError):
        return digests.signature(path)
    return []


def _shown(name: str) -> str:
    """A file of a closure from the working folder."""
    return os.path.relpath(code_hash.LIBRARY.parent / name)


def _loaded(name: str) -> bool:
    """Whether this process has loaded a file of a closure: a script is, style sheets are read later."""
    path = Path(name)
    if path.parts[0] == "scripts":
        return True
    if path.parts[0] != "headspec":  # of a plugin
        file = os.path.abspath(code_hash.LIBRARY.parent / name)
        return any(getattr(module, "__file__", None) == file for module in list(sys.modules.values()))
    module = path.parent if path.stem == "__init__" else path.with_suffix("")
    return path.suffix == ".py" and ".".join(module.parts) in sys.modules
