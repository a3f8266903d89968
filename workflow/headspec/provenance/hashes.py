"""SHA-256 of files, and other values computed from files, kept until the files change."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headspec.errors import DataError, StorageError
from headspec.provenance import files

#: of caches, in Snakemake's folder because every study has one
FOLDER = Path(".snakemake/headspec")
#: seconds after a change in which a file could change again at the same time of the system's clock
RECENT = 0.1
#: bytes; Snakemake does not compare larger files by content (profiles/default)
LARGEST = 20_000_000

StatKey = list[int]


def stat_key(path: str | Path) -> StatKey:
    """Inode, size, and the times of the last change of content and of the last change at all, in nanoseconds.

    Programs set the first of the times (``cp -p``, ``rsync -a``, ``unzip``), only the system the second.
    """
    status = os.stat(path)
    return [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


class FileCache:
    """Values computed from files, shared by processes that work in one folder.

    A value holds as long as the `stat_key` of its file; only `save` writes to the disk.

    Parameters
    ----------
    name : of the cache's file in `FOLDER`
    depends_on : what else decides on the values
    """

    def __init__(self, name: str, depends_on: Callable[[], str] = str) -> None:
        self.name, self.depends_on = name, depends_on
        self._entries: dict[str, dict[str, list[Any]]] = {}  # by working folder
        self._unsaved: set[str] = set()  # working folders

    def get(self, path: str | Path, compute: Callable[[str | Path], Any]) -> Any:
        """Return the value of a file, computed if it is new or has changed; OSError as `os.stat`."""
        entries, name, now = self._here(), os.path.abspath(path), stat_key(path)
        if name in entries and entries[name][0] == now:
            return entries[name][1]
        value = compute(path)
        entries[name] = [now, value, time.time() - now[3] / 1e9 < RECENT]
        self._unsaved.add(os.getcwd())
        return value

    def save(self) -> None:
        """Save the values of files that are still there, if any is new."""
        if os.getcwd() not in self._unsaved:
            return
        entries = {}
        for name, entry in self._here().items():
            with contextlib.suppress(OSError):
                if stat_key(name) == entry[0] and not entry[2]:
                    entries[name] = entry
        text = json.dumps({"by": self.depends_on(), "entries": entries, "sha256": files.PLACEHOLDER})
        # without the file, the values are computed again
        with contextlib.suppress(OSError, StorageError), files.atomic(FOLDER / self.name) as temporary:
            temporary.write_text(text)
            files.embed_sha256(temporary)
        self._unsaved.discard(os.getcwd())

    def clear(self) -> None:
        """Forget all values that are not saved."""
        self._entries.clear()

    def _here(self) -> dict[str, list[Any]]:
        folder = os.getcwd()
        if folder not in self._entries:
            self._entries[folder] = self._saved()
        return self._entries[folder]

    def _saved(self) -> dict[str, list[Any]]:
        try:
            files.verify(FOLDER / self.name)
            stored = json.loads((FOLDER / self.name).read_text())
            return stored["entries"] if stored["by"] == self.depends_on() else {}
        except (DataError, OSError, ValueError, KeyError, TypeError):
            return {}


SHA256, RECORD_SHA256 = FileCache("sha256.json"), FileCache("record_sha256.json")


def sha256(path: str | Path) -> str:
    """SHA-256 of a file."""
    return SHA256.get(path, files.sha256)


def record_sha256(path: str | Path) -> str:
    """The SHA-256 by which the record of a job identifies a file.

    As in Snakemake's records it is of the bytes, after ``sha256:``. Larger files, and training states, whose
    times differ from run to run, have one in themselves (`files.embedded_sha256`), which is quick to read.
    """
    return RECORD_SHA256.get(path, _record_sha256)


def _record_sha256(path: str | Path) -> str:
    if os.path.getsize(path) > LARGEST or str(path).endswith(".pt"):
        return files.embedded_sha256(path) or sha256(path)
    return f"sha256:{sha256(path)}"


def save() -> None:
    """Save the SHA-256 of files for other processes."""
    SHA256.save()
    RECORD_SHA256.save()
