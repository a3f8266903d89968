"""Processes at work on a study, and the comparison of results."""

import hashlib
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import psutil

from headspec import tables
from support import hangs

KEPT = ("trunk.pt", "state.pt")  # states of training that are results
TIMES = ["examples_per_second", "memory_mb"]


def contents(results: Path) -> dict[str, str]:
    """Result file: hash of its bytes, or of its rows without measured times."""
    hashes = {}
    for path in sorted(
        p
        for p in results.rglob("*")
        if p.suffix in (".parquet", ".safetensors", ".json", ".svg", ".png") or p.name in KEPT
    ):
        data = path.read_bytes()
        if path.name == "training.parquet":
            data = pd.util.hash_pandas_object(tables.read(path).drop(columns=TIMES)).to_numpy().tobytes()
            data += json.dumps(tables.footer(path)).encode()
        hashes[str(path.relative_to(results))] = hashlib.sha256(data).hexdigest()
    return hashes


def at_work(folder: Path, status: str | None = None) -> list[psutil.Process]:
    """Processes that run in `folder`, those with a status of psutil (`STATUS_STOPPED`) if one is given."""
    processes = []
    for process in psutil.process_iter():
        try:
            current = process.status()
            if process.cwd() == str(folder) and (
                current == status if status else current != psutil.STATUS_ZOMBIE
            ):
                processes.append(process)
        except psutil.Error:  # it ended meanwhile
            continue
    return processes


def until(condition: Callable[[], object], process: subprocess.Popen[Any] | None = None) -> None:
    """Wait for `condition`; fails if `process` ends first, or nothing happens any more."""
    with hangs.looking():
        while not condition():
            assert not process or process.poll() is None, (
                process.stdout.read() if process.stdout else process.args
            )
            time.sleep(0.02)
