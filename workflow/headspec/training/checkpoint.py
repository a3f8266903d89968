"""Training states: checkpoints of unfinished runs, and states from which other runs branch off."""

from __future__ import annotations

import fcntl
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from headspec.errors import DamageError
from headspec.progress import log
from headspec.provenance import files
from headspec.provenance.hashes import record_sha256
from headspec.training import parallel

if TYPE_CHECKING:
    from headspec.models.stage import ModelStage


def read(path: str | Path) -> dict[str, Any]:
    """Return the state in a file written by `Checkpoint.save`, on the CPU.

    Raises DamageError if the file has changed since, or was written in another folder.
    """
    files.verify(path)
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    files.verify_place(path, [str(Path(state["folder"]) / Path(path).name)])
    return state


class Checkpoint:
    """The state of an unfinished run, in one file.

    A state with another `fingerprint` (of settings, data and code) is ignored. A save is due `seconds` after
    the last one. If the state is a result, its file ends with the `record` of its job.
    """

    def __init__(self, path: Path, fingerprint: str, seconds: float, record: str = "") -> None:
        self.path, self.fingerprint, self.seconds, self.record = path, fingerprint, seconds, record
        self.saved = time.monotonic()

    def load(self) -> dict[str, Any] | None:
        """Return the saved state on the CPU; None if this run has none, or the file is damaged."""
        if not self.path.exists():
            return None
        try:
            state = read(self.path)
        except DamageError as error:
            log.warning("training from the start, because the state is lost: %s", error)
            return None
        return state if state["fingerprint"] == self.fingerprint else None

    def due(self) -> bool:
        return time.monotonic() - self.saved >= self.seconds

    def save(self, state: dict[str, Any]) -> None:
        """Save `state` if this process is the first of those that train; equal states give equal bytes."""
        if parallel.is_first():
            state = state | {"fingerprint": self.fingerprint, "folder": str(self.path.parent)}
            with files.atomic(self.path) as temporary:
                with open(temporary, "wb") as file:
                    torch.save(_plain(state), file)
                    # readers of archives ignore what follows their end
                    file.write(f"{self.record}{files.PLACEHOLDER}".encode())
                files.embed_sha256(temporary)
        self.saved = time.monotonic()

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


def _plain(value: Any) -> Any:
    """Return a state in which equal strings are one object, so that each is written once."""
    if isinstance(value, dict):
        return {_plain(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return (list if isinstance(value, list) else tuple)(map(_plain, value))
    return sys.intern(value) if isinstance(value, str) else value


@contextmanager
def resumable(job: ModelStage, path: Path, *settings: str) -> Iterator[Checkpoint]:
    """Yield the checkpoint of a job at `path`, and remove it when the job is done.

    Its fingerprint covers `settings` (names of params), the model, the section `training`, versions, code,
    inputs, wildcards and precision. Waits while a job that survived a killed workflow still trains the run.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_suffix(".lock"), "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            log.info("waiting for another process that is training this run")
            fcntl.flock(file, fcntl.LOCK_EX)
        names = (*settings, "model", "training", "version", "code")
        params = {name: job.snakemake.params[name] for name in names}
        inputs = [*map(record_sha256, job.snakemake.input)]
        fingerprint = repr([params, dict(job.snakemake.wildcards.items()), job.device.precision, inputs])
        checkpoint = Checkpoint(path, fingerprint, job.snakemake.resources.checkpoint_seconds)
        yield checkpoint
        checkpoint.remove()
