"""Files of the user as params of jobs: known by their content, so that no record has a spelling of paths."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from headspec.provenance import hashes


class Place(str):
    """A path that a job reads; records, which have the `repr` of params, have the same for every path."""

    def __repr__(self) -> str:
        return "'a path'"


class Version(str):
    """The version of files by their names and contents, with their paths."""

    files: dict[str, str]

    def is_current(self) -> bool:
        """Return whether the files are what they were."""
        return self == _digest(self.files)


def version(files: Mapping[str, Path]) -> Version:
    """Return the version of files by what counts of their names."""
    paths = {name: str(path) for name, path in files.items()}
    made = Version(_digest(paths))
    made.files = paths
    return made


def _digest(files: Mapping[str, str]) -> str:
    lines = (f"{name} {hashes.sha256(path)}\n" for name, path in sorted(files.items()))
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:16]


def versions(params: Iterable[Any]) -> list[Version]:
    """Return the versions of files among the params of a job."""
    return [value for value in params if isinstance(value, Version)]
