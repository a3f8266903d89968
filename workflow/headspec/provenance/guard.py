"""Checks that a job's code and inputs stay unchanged from planning until its results are written."""

import contextlib
import functools
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headspec.errors import ChangedError, UnplannedError, listing
from headspec.provenance import code_hash, definitions, files, hashes, user_files

AGAIN = "Nothing of it is kept. Start snakemake again, which plans with what is there now"
#: seconds by which times of files may differ from the time of writing
CLOCK = 0.1


@contextmanager
def unchanged(job: Any) -> Iterator[None]:
    """Let a job publish files only if it loaded the code it was planned with, and its inputs are unchanged.

    Jobs are planned with hashes of the definitions that they reach (`code_hash.by_root`), but may load them
    hours later. Edits after loading do no harm: the next start of snakemake makes the results again.

    Raise ChangedError, at the start or before a file is published, if a definition that the job reaches was
    edited between planning and loading, a file of the user was replaced between planning and start, or an
    input was replaced while the job ran. Raise UnplannedError if it has loaded a module that its hashes do
    not cover.
    """
    versions = user_files.versions(job.params)
    read = [path for version in versions for path in version.files.values()]
    inputs = {path: _input_state(path) for path in (*job.input, *read)}
    for version in versions:
        if not version.is_current():
            raise ChangedError(
                f"{listing(version.files.values(), 3)}: replaced after this job was planned. {AGAIN}"
            )
    planned = dict(getattr(job.params, "code", {}))
    code = code_hash.files(planned)
    _compare(planned, code, "after this job was planned")
    if planned:
        began = os.stat(sys.argv[0]).st_mtime  # Snakemake has just written it
        if recent := [path for path in code if hashes.stat_key(path)[3] / 1e9 > began - CLOCK]:
            raise ChangedError(f"{os.path.relpath(recent[0])} was edited after this job was planned. {AGAIN}")
    several = job.resources.get("gpu", 0) > 1  # processes for several GPUs load everything again
    later = {path: _stat_key(path) for path in (code if several else code - {*loaded(planned)})}
    before: frozenset[str] = getattr(
        job, "loaded", frozenset()
    )  # by the process in which `headspec debug` runs the job

    def check() -> None:
        if any(_stat_key(path) != key for path, key in later.items()):
            _compare(planned, code, "while this job ran")
        if planned and (strange := sorted(filter(definitions.acts, {*loaded(planned)} - code - before))):
            raise UnplannedError(
                f"{listing(map(os.path.relpath, strange))}: loaded by this job, but an edit of it would not "
                "make the job run again; import it by its name, not by a text that is put together"
            )
        for name, state in inputs.items():
            if _input_state(name) != state:
                raise ChangedError(f"{name} was replaced while this job ran. {AGAIN}")

    code_hash.planned |= planned
    try:
        with files.publishing_if(check):
            yield
    finally:
        code_hash.planned.clear()


def _compare(planned: dict[str, str], code: set[str], when: str) -> None:
    """Raise ChangedError if a job was planned with other code, naming the file that was edited last."""
    now: dict[str, str] = {}
    with contextlib.suppress(OSError, SyntaxError, ValueError):
        now = code_hash.by_root(planned)
    if now != planned:
        edited = max(filter(os.path.exists, code), key=lambda path: os.stat(path).st_ctime_ns)
        raise ChangedError(f"{os.path.relpath(edited)} was edited {when}. {AGAIN}")


def _stat_key(path: str) -> hashes.StatKey:
    with contextlib.suppress(OSError):
        return hashes.stat_key(path)
    return []


def _input_state(path: str) -> tuple[hashes.StatKey, str]:
    """Return values that change if an input is replaced; a new link changes only the last time."""
    with contextlib.suppress(OSError):
        return hashes.stat_key(path)[:3], hashes.record_sha256(path)
    return [], ""


def loaded(planned: Iterable[str]) -> Iterator[str]:
    """Yield the files of loaded modules of headspec and, if a job was planned with plugins, beside these."""
    roots = [Path(code_hash.node_of(root).path) for root in planned]
    plugins = [path for path in roots if code_hash.LIBRARY.parent not in path.parents]
    beside = [*map(definitions.import_root, plugins), *([Path.cwd()] if plugins else [])]
    # jobs ask at every file that they write, of thousands of modules: texts are compared, not paths
    library, here = os.path.join(code_hash.LIBRARY, ""), os.getcwd()
    folders = (library, *(os.path.join(folder, "") for folder in beside))
    for module in list(sys.modules.values()):
        path = _normal(os.path.join(here, getattr(module, "__file__", None) or ""))
        # the script, or what runs it, under any name; some modules of torch name files that do not exist
        if (
            path.startswith(folders)
            and path.endswith(".py")
            and getattr(module, "__name__", "") != "__main__"
            and (path.startswith(library) or not code_hash.is_installed(Path(path)))
            and os.path.exists(path)
        ):
            yield path


@functools.cache
def _normal(path: str) -> str:
    return os.path.normpath(path)
