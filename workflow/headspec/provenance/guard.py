"""Checks that a job's code and inputs stay unchanged from planning until its results are written."""

import contextlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from headspec.errors import ChangedError, UnplannedError, listing
from headspec.provenance import code_hash, files, hashes, user_files

AGAIN = "Nothing of it is kept. Start snakemake again, which plans with what is there now"
#: seconds by which a file's time may differ from the time of writing
CLOCK = 0.1


@contextmanager
def unchanged(job: Any) -> Iterator[None]:
    """Let a job publish files only if it loaded the code it was planned with, and its inputs are unchanged.

    Jobs are planned with hashes of the files that they reach (`code_hash.by_root`), but may load them hours
    later. Edits after loading do no harm: the next start of snakemake remakes the results.

    Raises ChangedError, at the start or before a file is published, if a file that the job reaches was edited
    between planning and loading, a user's file was replaced between planning and start, or an input was
    replaced while the job ran. Raises UnplannedError if it has loaded a module that its hashes do not cover,
    or a plugin has opened a file that is neither hashed nor an input.
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
    try:
        code = code_hash.files(planned)
    except OSError as error:
        raise ChangedError(f"{error.filename}: missing since this job was planned. {AGAIN}") from None
    _compare(planned, code, "after this job was planned")
    if planned:
        began = os.stat(sys.argv[0]).st_mtime  # Snakemake has just written it
        if recent := [path for path in code if hashes.stat_key(path)[3] / 1e9 > began - CLOCK]:
            raise ChangedError(f"{os.path.relpath(recent[0])} was edited after this job was planned. {AGAIN}")
    several = job.resources.get("gpu", 0) > 1  # processes for several GPUs load everything again
    later = {path: _stat_key(path) for path in (code if several else code - loaded())}
    before: set[str] = getattr(job, "loaded", set())  # by the process in which `headspec debug` runs the job
    own = (f"{code_hash.LIBRARY}{os.sep}", *_folders(code))
    before = before | {path for path in loaded() if not path.startswith(own)}  # as sitecustomize.py is

    def check() -> None:
        if any(_stat_key(path) != key for path, key in later.items()):
            _compare(planned, code, "while this job ran")
        if planned and (strange := [path for path in unplanned(code) if path not in before]):
            raise UnplannedError(
                f"{listing(map(os.path.relpath, strange))}: loaded by this job, but an edit of it would not "
                "make the job run again; use an import statement, or name it in the rule by code(...)"
            )
        if undeclared := _undeclared(code, [*inputs]):
            raise UnplannedError(
                f"{listing(map(os.path.relpath, undeclared))}: read by a plugin, but an edit of it would not "
                "make the job run again; put it next to the plugin, and name it there by a plain string"
            )
        for name, state in inputs.items():
            if _input_state(name) != state:
                raise ChangedError(f"{name} was replaced while this job ran. {AGAIN}")

    code_hash.hashes_when_planned |= planned
    try:
        with _noting_opened(_plugged(code)), files.publishing_if(check):
            yield
    finally:
        code_hash.hashes_when_planned.clear()


def _compare(planned: dict[str, str], code: set[str], when: str) -> None:
    """Raise ChangedError if a job was planned with other code, naming the last edited file."""
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
    """Return values that change if an input is replaced; a new hard link changes only the change time."""
    with contextlib.suppress(OSError):
        return hashes.stat_key(path)[:3], hashes.record_sha256(path)
    return [], ""


def unplanned(code: set[str]) -> list[str]:
    """Return the files of loaded modules that are neither installed nor part of a job's code.

    Without plugins, only modules of headspec count: others belong to whoever runs the job.
    """
    library, plugged = f"{code_hash.LIBRARY}{os.sep}", bool(_plugged(code))
    strange = (path for path in loaded() - code if path.startswith(library) or plugged)
    return sorted(path for path in strange if not _is_installed(path) and os.path.exists(path))


def _folders(code: set[str]) -> list[str]:
    """Return the folders that plugins are imported from, and the working folder, with a separator."""
    roots = {str(code_hash.import_root(Path(path))) for path in _plugged(code)}
    return [os.path.join(each, "") for each in (os.getcwd(), *roots)]


def _plugged(code: set[str]) -> set[str]:
    """Return the files in a job's code that are not part of headspec."""
    return {path for path in code if not path.startswith(f"{code_hash.LIBRARY.parent}{os.sep}")}


def loaded() -> set[str]:
    """Return the files of all loaded modules except the script, under any name."""
    here = os.getcwd()
    # not getattr, because lazy modules search long for attributes that they lack
    modules = [getattr(each, "__dict__", {}) for each in [*sys.modules.values()]]
    ours = (names for names in modules if names.get("__name__") != "__main__")
    paths = {path for names in ours if (path := names.get("__file__")) and path.endswith(".py")}
    return {_normal(path if os.path.isabs(path) else os.path.join(here, path)) for path in paths}


#: cached, because jobs check thousands of modules for every file that they write
_normal = cache(os.path.normpath)
_is_installed = cache(code_hash.is_installed)


# --- files that plugins open

#: files of plugins that are watched, and the files that they have opened for reading and writing
_watched: set[str] = set()
_read: set[str] = set()
_written: set[str] = set()
#: folders of the operating system
SYSTEM = ("/dev/", "/etc/", "/proc/", "/run/", "/sys/", "/usr/")


@contextmanager
def _noting_opened(plugins: set[str]) -> Iterator[None]:
    """Record the files that these plugin files open, directly or through an installed package.

    Files opened by compiled code, as in pyarrow, are not seen.
    """
    global _hooked
    if plugins and not _hooked:
        sys.addaudithook(_note)  # cannot be removed
        _hooked = True
    _watched.update(plugins)
    try:
        yield
    finally:
        for noted in (_watched, _read, _written):
            noted.clear()


_hooked = False


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or not _watched or not isinstance(arguments[0], (str, bytes)):
        return
    path, flags = os.path.abspath(os.fsdecode(arguments[0])), arguments[2]
    if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        _written.add(path)
    elif _opens(sys._getframe(1)):
        _read.add(path)


def _opens(frame: FrameType | None) -> bool:
    """Return whether a plugin opens a file, rather than headspec or the import of an installed package."""
    installed = False
    while frame:
        file = frame.f_code.co_filename
        if file in _watched:
            return True
        if file.startswith("<frozen importlib"):
            if installed:
                return False
        elif not (installed := _is_installed(file)) and not file.startswith("<"):
            return False
        frame = frame.f_back
    return False


def _undeclared(code: set[str], inputs: list[str]) -> list[str]:
    """Return the files that plugins have read that are neither code nor inputs of the job."""
    declared = [os.path.abspath(path) for path in inputs]
    own = tuple(_folders(code))
    return sorted(
        path
        for path in _read - code - _written
        if not any(path == each or path.startswith(f"{each}{os.sep}") for each in declared)
        and not path.startswith(SYSTEM)
        and "__pycache__" not in path
        and not code_hash.is_installed(path)
        and (path.startswith(own) or f"{os.sep}." not in path)  # not a cache
    )
