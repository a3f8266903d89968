"""Checks that a job's code and inputs stay unchanged from planning until its results are written."""

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headspec.errors import ChangedError
from headspec.provenance import code_hash, files, hashes

AGAIN = "Nothing of it is kept. Start snakemake again, which plans with what is there now"
#: seconds by which times of files may differ from the time of writing
CLOCK = 0.1


@contextmanager
def unchanged(job: Any) -> Iterator[None]:
    """Let a job publish files only if it loaded the code it was planned with, and its inputs are unchanged.

    Jobs are planned with hashes of all their code (`code_hash.closure`), but may load it hours later. Edits
    after loading do no harm: the next start of snakemake makes the results again.

    Raise ChangedError, at the start or before a file is published, if code was edited between planning and
    loading, or an input was replaced while the job ran.
    """
    inputs = {path: _input_state(path) for path in job.input}
    planned = {
        code_hash.LIBRARY.parent / name: code for name, code in getattr(job.params, "code", {}).items()
    }
    began = os.stat(sys.argv[0]).st_mtime if planned else 0.0  # Snakemake has just written it
    for path, code in planned.items():
        if _code(path) != code or hashes.stat_key(path)[3] / 1e9 > began - CLOCK:
            raise ChangedError(f"{os.path.relpath(path)} was edited after this job was planned. {AGAIN}")
    later = {path: _stat_key(path) for path in _not_loaded(planned, job)}

    def check() -> None:
        for path, before in later.items():
            if _stat_key(path) != before:
                raise ChangedError(f"{os.path.relpath(path)} was edited while this job ran. {AGAIN}")
        for name, state in inputs.items():
            if _input_state(name) != state:
                raise ChangedError(f"{name} was replaced while this job ran. {AGAIN}")

    files.before_publishing.append(check)
    try:
        yield
    finally:
        files.before_publishing.remove(check)


def _code(path: Path) -> str | None:
    with contextlib.suppress(OSError, SyntaxError, ValueError):
        return code_hash.code(path)
    return None


def _stat_key(path: str | Path) -> hashes.StatKey:
    with contextlib.suppress(OSError):
        return hashes.stat_key(path)
    return []


def _input_state(path: str) -> tuple[hashes.StatKey, str]:
    """Return values that change if an input is replaced; a new link changes only the last time."""
    with contextlib.suppress(OSError):
        return hashes.stat_key(path)[:3], hashes.record_sha256(path)
    return [], ""


def _not_loaded(code: Iterable[Path], job: Any) -> list[Path]:
    """Return files of code that a job may still load."""
    if job.resources.get("gpu", 0) > 1:  # processes for several GPUs load everything again
        return list(code)
    loaded = {os.path.abspath(getattr(module, "__file__", None) or "") for module in sys.modules.values()}
    scripts = code_hash.LIBRARY.with_name("scripts")  # which Snakemake has copied
    return [path for path in code if scripts not in path.parents and os.path.abspath(path) not in loaded]
