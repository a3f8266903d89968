"""Digests of files by content, computed once for as long as a file is the same one to the system."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headspec import files
from headspec.errors import DataError, StorageError

#: of records, in Snakemake's folder because every study has one
FOLDER = Path(".snakemake/headspec")
#: seconds after a change in which a file could change again at the same time of the system's clock
RECENT = 0.1

Signature = list[int]


def signature(path: str | Path) -> Signature:
    """Inode, size, time of the last change of content, and of the last change at all, in nanoseconds.

    Programs set the first of the times (``cp -p``, ``rsync -a``, ``unzip``), only the system the second.
    """
    status = os.stat(path)
    return [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


class Memory:
    """Values computed from files, kept between processes that work in one folder.

    A value holds while the `signature` of its file does. The file in which values are kept is written by
    `remember` alone.

    Parameters
    ----------
    name : of the file in `FOLDER`
    by : what else the values depend on
    """

    def __init__(self, name: str, by: Callable[[], str] = str) -> None:
        self.name, self.by = name, by
        self._known: dict[str, dict[str, list[Any]]] = {}  # by working folder
        self._recent: set[str] = set()
        self._new: set[str] = set()  # working folders

    def get(self, path: str | Path, compute: Callable[[str | Path], Any]) -> Any:
        """The value of a file, which `compute` gives if it is new or has changed; OSError as `os.stat`."""
        known, key, current = self._here(), os.path.abspath(path), signature(path)
        entry = known.get(key)
        if entry and entry[0] == current:
            return entry[1]
        value = compute(path)
        known[key] = [current, value]
        self._new.add(os.getcwd())
        if time.time() - current[3] / 1e9 < RECENT:
            self._recent.add(key)
        return value

    def remember(self) -> None:
        """Keep the values of files that are still there, if any is new."""
        if os.getcwd() not in self._new:
            return
        path, known = FOLDER / self.name, {}
        for key, entry in self._here().items():
            with contextlib.suppress(OSError):
                if signature(key) == entry[0] and key not in self._recent:
                    known[key] = entry
        # without it, the values are computed again
        with contextlib.suppress(OSError, StorageError), files.atomic(path) as temporary:
            temporary.write_text(json.dumps({"by": self.by(), "known": known, "seal": files.OPEN}))
            files.seal(temporary)
        self._new.discard(os.getcwd())

    def forget(self) -> None:
        """Forget what this process knows, but not what it has remembered."""
        self._known.clear()

    def _here(self) -> dict[str, list[Any]]:
        folder = os.getcwd()
        if folder not in self._known:
            self._known[folder] = self._read()
        return self._known[folder]

    def _read(self) -> dict[str, list[Any]]:
        path = FOLDER / self.name
        try:
            files.check(path)
            stored = json.loads(path.read_text())
            return stored["known"] if stored["by"] == self.by() else {}
        except (DataError, OSError, ValueError, KeyError, TypeError):
            return {}


CONTENTS, MARKS = Memory("contents.json"), Memory("marks.json")


def content(path: str | Path) -> str:
    """SHA-256 of a file."""
    return CONTENTS.get(path, files.digest)


def mark(path: str | Path) -> str:
    """What tells a result from every other: its seal, without reading all of it, or else its SHA-256."""
    return MARKS.get(path, lambda path: files.sealed(path) or files.digest(path))


def remember() -> None:
    """Keep the digests for the next process."""
    CONTENTS.remember()
    MARKS.remember()
