"""A content-addressed store of trained runs, so that runs that several studies share are trained once.

An entry is a folder, named by the SHA-256 of everything that its training depended on (`identity`), with
hard links to the files of the run that trained it. These must not be changed in place.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow.parquet as pq

from headspec import tables
from headspec.errors import DataError, MissingError
from headspec.progress import log
from headspec.provenance import files

if TYPE_CHECKING:
    from headspec.models.multitask import MultiTask
    from headspec.models.stage import ModelStage
    from headspec.training.checkpoint import Checkpoint

VARIABLE = "HEADSPEC_STORE"  # environment variable with the folder of the store; if unset, nothing is shared
IDENTITY = "identity.json"


def check() -> Path | None:
    """Return the folder of the store, or None if `VARIABLE` is unset; MissingError if it does not exist."""
    if not (named := os.environ.get(VARIABLE)):
        return None
    path = Path(named).expanduser().resolve()
    if not path.is_dir():
        raise MissingError(
            f"{VARIABLE}: no folder '{named}' here; expected the folder that holds trained runs. "
            f"`mkdir -p {named}` makes a new one"
        )
    return path


def identity(job: ModelStage, model: MultiTask, paths: Iterable[str], **settings: Any) -> dict[str, Any]:
    """Return everything that determines the bytes of a trained model, as plain values.

    `model` is untrained, `paths` are the training tables in order; `settings` include hashes of code.
    """
    import torch

    config = model.encoder.config.to_dict()
    config.pop("_name_or_path", None)  # the folder that the model was loaded from
    device: list[Any] = [torch.cpu.get_capabilities(), torch.get_num_threads()]
    if job.device.name == "cuda":
        device = [torch.cuda.get_device_name(), torch.version.cuda, job.gpus]
    return {
        "device": [*device, job.device.precision, job.microbatches],
        "versions": tables.versions(),
        "seed": job.seed,
        "classes": list(model.classes.items()),
        "pooling": model.pooling,
        "config": config,
        "weights": _weights(model),
        "tables": [_rows(path) for path in paths],
        **settings,
    }


def _weights(model: MultiTask) -> str:
    """Return the SHA-256 of the names, dtypes, shapes and values of a model's tensors."""
    digest = sha256()
    for name, value in model.state_dict().items():
        array = value.detach().cpu().numpy()
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode() + array.tobytes())
    return digest.hexdigest()


def _rows(path: str) -> str:
    """Return the SHA-256 of a table's columns and rows, without its footer, which names its study."""
    with pq.ParquetFile(path) as file:
        digest = sha256(str(file.schema_arrow.remove_metadata()).encode())
        for batch in file.iter_batches():
            digest.update(batch.serialize())
    return digest.hexdigest()


def entry(job: ModelStage, model: MultiTask, paths: Iterable[str], **settings: Any) -> Entry:
    """Return the entry for a training (see `identity`)."""
    store = check()
    return Entry(store, identity(job, model, paths, **settings), job.snakemake) if store else Entry(None, {})


class Entry:
    """The place in the store of the run with this `identity`.

    The folder `path` exists once the run has been trained; it is None without a store.
    """

    def __init__(self, store: Path | None, identity: dict[str, Any], job: Any | None = None) -> None:
        self.job = job
        self.text = json.dumps(identity, indent=1, sort_keys=True, default=str)
        self.path = store / sha256(self.text.encode()).hexdigest() if store else None

    def take(self, run: Path, trunk: Checkpoint | None) -> pd.DataFrame | None:
        """Fill the folder of a run and return its table `training`; None if the run has to be trained.

        An entry that is damaged, or belongs to another run, is removed. `trunk`, if given, receives the state
        from which other runs branch off. In files with the record of a job, this job's record replaces it.
        """
        from headspec.models.saved import adopt
        from headspec.training import checkpoint

        if self.path is None or not self.path.is_dir():
            return None
        try:
            self._require_identity(self.path / IDENTITY)
            history = tables.read(self.path / "training.parquet")
            if trunk:
                trunk.save(checkpoint.read(self.path / "trunk.pt"))
            adopt(self.path, run / "model", self.job)
        except (DataError, OSError) as error:
            log.warning("training again, because the store has lost the run: %s", error)
            shutil.rmtree(self.path, ignore_errors=True)
            return None
        log.info("not trained: taken from %s", self.path)
        return history

    def _require_identity(self, path: Path) -> None:
        """Raise DataError if the file names another identity; folders can be renamed."""
        if path.read_text(errors="replace") != self.text:
            raise DataError(f"{path}: belongs to another training than its folder")

    def put(self, paths: Iterable[str]) -> None:
        """Store the files of the finished run; if that fails, the run itself is unaffected."""
        if self.path is None or self.path.is_dir():
            return
        filling = self.path.with_name(f".{self.path.name}.{uuid.uuid4().hex}")
        try:
            filling.mkdir()
            (filling / IDENTITY).write_text(self.text)
            for path in map(Path, paths):
                files.link(path, filling / path.name)
            filling.rename(self.path)
        except OSError as error:
            if not self.path.is_dir():  # another job may just have stored it
                log.warning("the run is finished, but not in the store: %s", error)
        finally:
            shutil.rmtree(filling, ignore_errors=True)
