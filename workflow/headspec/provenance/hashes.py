"""SHA-256 and other values computed from files, cached until the files change."""

import contextlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headspec.errors import DataError, StorageError
from headspec.provenance import files

#: for caches; in Snakemake's folder because every study has one
FOLDER = Path(".snakemake/headspec")
#: seconds in which a changed file could change again without a new time on the system's clock
RECENT = 0.1
#: bytes; Snakemake does not compare larger files by content (profiles/default)
LARGEST = 20_000_000

StatKey = list[int]


def stat_key(path: str | Path) -> StatKey:
    """Return inode, size, and times (ns) of the last change of content and of the last change at all.

    Programs can set the first time (``cp -p``, ``rsync -a``, ``unzip``), only the system the second.
    """
    status = os.stat(path)
    return [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


class FileCache:
    """Values computed from files, shared by processes in one folder through the file `name` in `FOLDER`.

    A value holds while the file's `stat_key` and `depends_on` stay the same; only `save` writes to the disk.
    """

    def __init__(self, name: str, depends_on: Callable[[], str] = str) -> None:
        self.name, self.depends_on = name, depends_on
        self._entries: dict[str, dict[str, list[Any]]] = {}  # by working folder
        self._unsaved: set[str] = set()  # working folders

    def get(self, path: str | Path, compute: Callable[[str | Path], Any]) -> Any:
        """Return the value of a file, computed if it is new or changed; raise OSError as `os.stat`."""
        entries, name, now = self._here(), os.path.abspath(path), stat_key(path)
        if name in entries and entries[name][0] == now:
            return entries[name][1]
        value = compute(path)
        entries[name] = [now, value, time.time() - now[3] / 1e9 < RECENT]
        self._unsaved.add(os.getcwd())
        return value

    def save(self) -> None:
        """Save the values of existing files, if any value is new."""
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
        """Forget all unsaved values."""
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
    """Return the SHA-256 of a file."""
    return SHA256.get(path, files.sha256)


def record_sha256(path: str | Path) -> str:
    """Return the SHA-256 by which a job's record identifies a file.

    It is ``sha256:`` and the hash of the bytes, as in Snakemake's records. Large files, and training states,
    whose times differ between runs, use the hash embedded in them (`files.embedded_sha256`).
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
