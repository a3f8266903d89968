"""Checkpoints of unfinished runs."""

from __future__ import annotations

import fcntl
import hashlib
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from headspec.progress import log
from headspec.tables import atomic


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Lock the file `path`; wait while a job left over from a killed workflow holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            log.info("waiting for another process that is training this run")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def fingerprint(settings: Any, paths: Iterable[str]) -> str:
    """What a run depends on: its settings, and its input files by content."""
    hashes = []
    for path in paths:
        with open(path, "rb") as file:
            hashes.append(hashlib.file_digest(file, "sha256").hexdigest())
    return repr([settings, hashes])


class Checkpoint:
    """The state of an unfinished run, in one file.

    Parameters
    ----------
    fingerprint : what the run depends on (settings, data, code); a state saved with another one is ignored
    seconds : interval after which the next save is due
    """

    def __init__(self, path: Path, fingerprint: str, seconds: float) -> None:
        self.path, self.fingerprint, self.seconds = path, fingerprint, seconds
        self.saved = time.monotonic()

    def load(self, device: str) -> dict | None:
        """The saved state on the CPU; None if there is none of this run."""
        try:
            state = torch.load(self.path, map_location="cpu", weights_only=True)
        except FileNotFoundError:
            return None
        return state if state["fingerprint"] == self.fingerprint else None

    def due(self) -> bool:
        return time.monotonic() - self.saved >= self.seconds

    def save(self, state: dict) -> None:
        with atomic(self.path) as temporary:
            torch.save(state | {"fingerprint": self.fingerprint}, temporary)
        self.saved = time.monotonic()

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
