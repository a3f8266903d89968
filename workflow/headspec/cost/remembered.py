"""Speeds that earlier plans measured, in the study's folder: measuring a large model takes minutes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
from dataclasses import asdict
from typing import Any

import torch

from headspec import tables
from headspec.cost.throughput import Speed
from headspec.errors import DataError, StorageError
from headspec.provenance import code_hash, files, hashes

#: load by which a speed that was measured on a busier machine no longer counts
BUSIER = 0.5


def key(*settings: Any) -> str:
    """Return what names a speed: machine, packages, the code that is measured, and `settings`."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    machine = platform.node(), torch.cpu.get_capabilities(), sorted(os.sched_getaffinity(0)), gpu
    code = code_hash.by_root([code_hash.LIBRARY / "cost" / "throughput.py"])
    known = json.dumps([machine, tables.versions(), code, settings], sort_keys=True, default=str)
    return hashlib.sha256(known.encode()).hexdigest()


def read(name: str, load: float) -> tuple[Speed, float] | None:
    """Return a speed, and the load of the machine before it was measured; None if that was higher."""
    path = hashes.FOLDER / f"speed-{name}"
    try:
        files.verify(path)
        stored = json.loads(path.read_text())
        speed, before = Speed(**stored["speed"]), float(stored["load"])
    except (DataError, OSError, ValueError, KeyError, TypeError):
        return None
    return (speed, before) if before <= load + BUSIER else None


def write(name: str, speed: Speed, load: float) -> None:
    """Remember a speed; where that fails, the next plan measures again."""
    content = {"speed": asdict(speed), "load": load, "file_sha256": files.PLACEHOLDER}
    path = hashes.FOLDER / f"speed-{name}"
    with contextlib.suppress(OSError, StorageError), files.atomic(path) as temporary:
        temporary.write_text(json.dumps(content))
        files.embed_sha256(temporary)
