"""Which results are current: whole, in their place, and made from what stands there now.

Every result says, in itself or in a table of its job, which job made it and from what (`tables.record`), and
what its SHA-256 is. The start of a run looks at all of them; what reads a study can ask in the same way. A
file is read once, and again only when it is another one to the system (`digests.signature`).
"""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import mmap
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from headspec import digests, files, tables
from headspec.digests import Memory
from headspec.errors import DamageError, DataError

INSCRIPTION = re.compile(rb"headspec:([\w-]+=*):")
#: why a file is no result
DAMAGED, FOREIGN = "damaged, edited or of an older headspec", "not made by a job of headspec"
#: of each file that can have a record: why it is no result, what its job read and wrote, package versions
LOOKED_AT = Memory("looked_at.json")
#: of each result without a record: what tells it from others, or `DAMAGED`
PLAIN = Memory("plain.json")
#: has the SHA-256 of the weights beside it
DESCRIPTION = "classifiers.json"


class Results:
    """The results of a study, looked at.

    Parameters
    ----------
    folder : ``results/<study>``; other paths in records are relative to the folder above `results`
    recorded : Snakemake's record of a file, or None. A file of more than `tables.LARGEST` bytes is not read
        to see whether it is whole if its date is the one at which its job ended, or without records

    Attributes
    ----------
    found : path: problem, marks, output and versions, of every file that can have a record
    new : paths that were not looked at before, or have changed since
    """

    def __init__(self, folder: Path, recorded: Callable[[Path], Any] | None = None) -> None:
        self.folder, self.recorded = folder, recorded
        self.found: dict[Path, dict[str, Any]] = {}
        self.new: set[Path] = set()
        self._placed = functools.cache(self._place)  # there are many inputs and few names
        for path in _files(folder):
            with contextlib.suppress(OSError):  # a running job is replacing it
                self.found[path] = LOOKED_AT.get(path, self._look)
        self._writers = {
            self.place(path, name): path
            for path, found in self.found.items()
            for name in found["output"]
            if _plain(name) and self.in_place(path)
        }
        self._outdated: dict[Path, str] = {}

    def place(self, path: Path, name: str) -> Path:
        """Where a file is that the record of `path` names; results of another study count as made here."""
        return self._placed(tuple(self.found[path]["output"][0].split("/", 2)[:2]), name)

    def in_place(self, path: Path) -> bool:
        """Whether a result, unlike a copy, is where its job wrote it."""
        return any(path == self.place(path, name) for name in self.found[path]["output"])

    def replaced(self, path: Path) -> list[str]:
        """Names in a result's record of what its job read, or wrote beside it, that is something else now."""
        found = self.found[path]
        beside = {name for name in found["output"] if _plain(name)}
        read = set(found["marks"]) - beside
        other = {name for name in read if self._mark(path, name) not in (None, found["marks"][name])}
        return sorted(other | {name for name in beside if not self._whole(path, name)})

    def problem(self, path: Path) -> str:
        """Why a result by itself is not current; empty if it is."""
        found = self.found[path]
        if found["problem"] or not self.in_place(path):
            return found["problem"] or f"a copy of {min(found['output'])}"
        return ", ".join(self.replaced(path))

    def outdated(self, path: Path) -> str:
        """Why a result, also weights, is not current, by itself or what it was made from; empty if it is."""
        path = self._writers.get(path, path)
        if path not in self._outdated:
            self._outdated[path] = "missing" if path not in self.found else self.problem(path)
            for source in () if self._outdated[path] else sorted(self.sources(path)):
                if (source in self.found or source in self._writers) and (why := self.outdated(source)):
                    self._outdated[path] = f"made from {source}: {why}"
                    break
        return self._outdated[path]

    def sources(self, path: Path) -> set[Path]:
        """What the job of a result, also of weights, read; nothing of other files."""
        path = self._writers.get(path, path)
        found = self.found.get(path, {"marks": {}, "output": []})
        return {self.place(path, name) for name in set(found["marks"]) - set(found["output"])}

    def made_from(self, paths: Iterable[Path]) -> set[Path]:
        """`paths` and all that they were made from: what belongs to them, unlike leftovers of other runs."""
        belonging, further = set(), set(paths)
        while further:
            belonging |= further
            further = {source for path in further for source in self.sources(path)} - belonging
        return belonging

    def damaged(self) -> list[Path]:
        """Results that are not as their jobs wrote them."""
        damaged = {path for path, found in self.found.items() if found["problem"] == DAMAGED}
        whole = (path for path, found in self.found.items() if not found["problem"] and self.in_place(path))
        for path in whole:
            beside = (name for name in self.found[path]["output"] if _plain(name))
            damaged |= {self.place(path, name) for name in beside if not self._whole(path, name)}
        return sorted(damaged)

    def _place(self, made_in: tuple[str, ...], name: str) -> Path:
        *folder, within = name.split("/", 2)
        if tuple(folder) == made_in and made_in[0] == "results":
            return self.folder / within
        return self.folder.parent.parent / name

    def _look(self, path: str | Path) -> dict[str, Any]:
        """What LOOKED_AT has of a file. Damaged bytes go into no reader, for it could do anything."""
        path, nothing = Path(path), dict[str, Any](marks={}, output=[], versions={})
        self.new.add(path)
        try:
            if not self._trusted(path):
                files.check(path)
        except DataError:
            known = self.recorded and (record := self.recorded(path)) and record.rule
            return {"problem": DAMAGED if known or _ours(path) else FOREIGN, **nothing}
        try:
            inscribed = read(path)
        except DamageError:
            return {"problem": FOREIGN, **nothing}
        job = inscribed["job"]
        return {
            "problem": "",
            "marks": job["marks"],
            "output": job["output"],
            "versions": inscribed.get("versions", {}),
        }

    def _trusted(self, path: Path) -> bool:
        status = path.stat()
        if status.st_size <= tables.LARGEST or not self.recorded:
            return status.st_size > tables.LARGEST
        record = self.recorded(path)
        return bool(record) and record.endtime == status.st_mtime

    def _mark(self, path: Path, name: str) -> str | None:
        with contextlib.suppress(OSError):
            return digests.mark(self.place(path, name))
        return None

    def _whole(self, path: Path, name: str) -> bool:
        """Whether a file without a record, if it is there, is as the job of `path` wrote it."""
        at = self.place(path, name)
        with contextlib.suppress(OSError, ValueError, KeyError):  # the description of weights may be damaged
            now, expected = PLAIN.get(at, self._look_plain), self.found[path]["marks"].get(name)
            if at.suffix == ".safetensors":
                expected = json.loads(at.with_name(DESCRIPTION).read_bytes())["sha256"][at.name]
            return now in (None, expected) or expected is None and now != DAMAGED
        return True

    def _look_plain(self, path: str | Path) -> str | None:
        """What PLAIN has of a file; None if it is not read."""
        path = Path(path)
        if self._trusted(path):
            return None
        if (mark := files.sealed(path)) is None:
            return digests.content(path)
        with contextlib.suppress(DamageError):
            files.check(path)
            return mark
        return DAMAGED


def read(path: Path) -> dict[str, Any]:
    """The footer of a table, or of another file with a record, an entry `job` alone.

    Raises
    ------
    DamageError
        It has no record that can be read.
    """
    if path.suffix == ".parquet":
        inscribed = tables.unchecked_footer(path)
    else:
        match = INSCRIPTION.search(path.read_bytes())
        try:
            job = json.loads(zlib.decompress(base64.urlsafe_b64decode(match[1]))) if match else {}
        except (ValueError, zlib.error):
            job = {}
        inscribed = {"job": job}
    if not {"rule", "params", "input", "output", "marks"} <= set(inscribed.get("job", {})):
        raise DamageError(f"{path}: {FOREIGN}")
    return inscribed


def _plain(name: str) -> bool:
    """Whether a result has no record in itself."""
    return not name.endswith(tables.INSCRIBED)


def _ours(path: Path) -> bool:
    """Whether a file that is not whole was once a result, or a table."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
            cut_off = data[:4] == b"PAR1" != data[-4:]
            return cut_off or data.find(b"headspec" if path.suffix == ".parquet" else b"headspec:") >= 0
    except ValueError:  # an empty file cannot be mapped
        return False


def _files(results: Path) -> Iterator[Path]:
    """Files that can have a record, except temporary ones; a link to a folder above it is not followed."""
    for folder, folders, names in os.walk(results, followlinks=True):
        linked = [each for each in folders if os.path.islink(os.path.join(folder, each))]
        for each in linked:
            if Path(folder).resolve().is_relative_to(Path(folder, each).resolve()):
                folders.remove(each)
        paths = (Path(folder, name) for name in names if name.endswith(tables.INSCRIBED) and name[0] != ".")
        yield from (path for path in paths if path.is_file())
