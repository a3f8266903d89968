"""SHA-256 and other values of files, cached until the files change."""

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from headspec.errors import DataError, StorageError
from headspec.provenance import files

#: for caches; in Snakemake's folder because every study has one
FOLDER = Path(".snakemake/headspec")
#: seconds within which a file could change again without a new time, given the clock's resolution
RECENT = 0.1
#: size in bytes above which jobs save the SHA-256 of files (`keep`), so that the next start need not read
#: them
LARGE = 20_000_000

StatKey = list[int]


def stat_key(path: str | Path) -> StatKey:
    """Return inode, size, modification time and change time (ns) of a file.

    Programs can set the modification time (``cp -p``, ``rsync -a``, ``unzip``), but not the change time.
    """
    status = os.stat(path)
    return [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


#: version of saved entries; others, such as of an earlier headspec, are computed again
FORM = "3"


class FileCache:
    """Values computed from files, shared by processes in one folder through the file `name` in `FOLDER`.

    A value is valid while the file's `stat_key` and `depends_on` stay the same, unless the file had just been
    written and could have changed again. Only `save` writes to disk.
    """

    def __init__(self, name: str, depends_on: Callable[[], str] = str) -> None:
        self.name, self.depends_on = name, depends_on
        self._entries: dict[str, dict[str, list[Any]]] = {}  # by working folder
        self._unsaved: dict[str, dict[str, list[Any]]] = {}
        self._computed: dict[str, list[Any]] = {}  # by this process, in any folder

    def get(self, path: str | Path, compute: Callable[[str | Path], Any]) -> Any:
        """Return the value of a file, computed if it is new or changed; raise OSError like `os.stat`."""
        entries, name, now = self._here(), os.path.abspath(path), stat_key(path)
        if name in entries and entries[name][0] == now:
            return entries[name][1]
        entry = self._computed.get(name)
        if not entry or entry[0] != now:
            settled = time.time() - now[3] / 1e9 >= RECENT
            entry = [now, compute(path)]
            if not settled:
                return entry[1]
        entries[name] = self._computed[name] = self._unsaved.setdefault(os.getcwd(), {})[name] = entry
        return entry[1]

    def follow(self, ran: Callable[[str], tuple[float, float] | None]) -> None:
        """Keep values that jobs computed valid for files that Snakemake touched after the jobs ended.

        Touching sets both times of a file; a later change moves one of them. `ran` returns when a file's job
        started and ended. A file from before the job can have had the same inode and size.
        """
        for name, (before, value) in self._here().items():
            with contextlib.suppress(OSError):
                now, changed = stat_key(name), os.stat(name).st_mtime
                touched = before != now and before[:2] == now[:2] and now[2] == now[3]
                began, ended = (touched and ran(os.path.relpath(name))) or (None, None)
                if began and changed == ended and before[3] / 1e9 > began:
                    self._here()[name] = self._unsaved.setdefault(os.getcwd(), {})[name] = [now, value]

    def save(self) -> None:
        """Save new values, if any, along with those of other processes, for files that exist."""
        if not (unsaved := self._unsaved.pop(os.getcwd(), {})):
            return
        entries = {}
        for name, entry in (self._saved() | unsaved).items():
            with contextlib.suppress(OSError):
                if stat_key(name)[:2] == entry[0][:2]:
                    entries[name] = entry
        text = json.dumps({"by": self._by(), "entries": entries, "sha256": files.PLACEHOLDER})
        # if this fails, the values are computed again
        with contextlib.suppress(OSError, StorageError), files.atomic(FOLDER / self.name) as temporary:
            temporary.write_text(text)
            files.embed_sha256(temporary)

    def clear(self) -> None:
        """Forget all values."""
        self._entries.clear()
        self._unsaved.clear()
        self._computed.clear()

    def _by(self) -> list[str]:
        """Return what saved entries depend on: their version, and `depends_on`."""
        return [FORM, self.depends_on()]

    def _here(self) -> dict[str, list[Any]]:
        folder = os.getcwd()
        if folder not in self._entries:
            self._entries[folder] = self._saved()
        return self._entries[folder]

    def _saved(self) -> dict[str, list[Any]]:
        try:
            files.verify(FOLDER / self.name)
            stored = json.loads((FOLDER / self.name).read_text())
            return stored["entries"] if stored["by"] == self._by() else {}
        except (DataError, OSError, ValueError, KeyError, TypeError):
            return {}


#: cache of `files.digests`
SHA256 = FileCache("sha256.json")


def sha256(path: str | Path) -> str:
    """Return the SHA-256 of a file."""
    return str(SHA256.get(path, files.digests)[0])


def record_sha256(path: str | Path) -> str:
    """Return the SHA-256 of a file as in job records: ``sha256:`` and 64 digits, like Snakemake's."""
    return f"sha256:{sha256(path)}"


def intact(path: str | Path) -> bool:
    """Return whether a file is unchanged since `files.embed_sha256`."""
    return bool(SHA256.get(path, files.digests)[1])


def keep(paths: Iterable[str]) -> None:
    """Save the SHA-256 of large inputs and outputs at the end of a job."""
    with contextlib.suppress(OSError):
        if large := [path for path in paths if os.path.getsize(path) > LARGE]:
            time.sleep(RECENT)
            for path in large:
                sha256(path)
            SHA256.save()
