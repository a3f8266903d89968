"""Jobs killed or stopped at a certain moment, and the comparison of results."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pandas as pd
import psutil

from headspec import tables

#: a module for the path of a job; stops or kills the job just before a file gets its final name
FAULT = """
import os, signal, sys
name, times, what = os.environ.get("FAULT", "-:0:-").rsplit(":", 2)
seen = 0
def fault(event, arguments):
    global seen
    if event == "os.rename" and str(arguments[1]).endswith(name):
        seen += 1
        if seen == int(times):
            os.kill(os.getpid(), signal.SIGSTOP if what == "stop" else signal.SIGKILL)
sys.addaudithook(fault)
"""


TIMES = ["examples_per_second", "memory_mb"]


def contents(results: Path) -> dict[str, str]:
    """Result file: hash of its bytes, or of its rows without measured times."""
    hashes = {}
    for path in sorted(
        p for p in results.rglob("*") if p.suffix in (".parquet", ".safetensors", ".json", ".svg", ".png")
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
