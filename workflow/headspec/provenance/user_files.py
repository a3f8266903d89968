"""Users' files as params of jobs, identified by content, so that records do not depend on paths."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from headspec.provenance import hashes


class Place(str):
    """A path that a job reads; its `repr`, which records contain, is the same for every path."""

    def __repr__(self) -> str:
        return "'a path'"


class Version(str):
    """The version of files, from their names and contents, with their paths."""

    files: dict[str, str]

    def is_current(self) -> bool:
        """Return whether the files are unchanged."""
        return self == _digest(self.files)


def version(files: Mapping[str, Path]) -> Version:
    """Return the version of files, by the part of their names that matters."""
    paths = {name: str(path) for name, path in files.items()}
    made = Version(_digest(paths))
    made.files = paths
    return made


def _digest(files: Mapping[str, str]) -> str:
    lines = (f"{name} {hashes.sha256(path)}\n" for name, path in sorted(files.items()))
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:16]


def versions(params: Iterable[Any]) -> list[Version]:
    """Return the versions of files in the params of a job."""
    return [value for value in params if isinstance(value, Version)]
