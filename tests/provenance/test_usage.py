"""What jobs use is recorded beside their logs, and summarised beside what they requested."""

import csv
import resource
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from headspec.errors import HeadspecError
from headspec.provenance import usage


def job(log: Path, **resources: int) -> SimpleNamespace:
    return SimpleNamespace(
        log=[str(log)], rule="train", threads=2, wildcards={"model": "bert"}, resources=resources
    )


def test_time_and_memory_are_recorded_even_of_a_failure(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "train.log"
    log.parent.mkdir()
    with pytest.raises(ValueError), usage.recorded(job(log, mem_mb=4000, runtime=60)):
        sum(range(3_000_000))
        block = bytearray(b"1" * 64_000_000)
        raise ValueError(len(block))
    with open(usage.path(str(log)), newline="") as file:
        (row,) = csv.DictReader(file, delimiter="\t")
    assert row["rule"] == "train" and row["model"] == "bert" and row["threads"] == "2"
    assert (row["asked_mb"], row["asked_minutes"], row["gpu_memory_mb"]) == ("4000", "60", "0")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    assert 61 <= int(row["memory_mb"]) <= most and float(row["cpu_seconds"]) > 0


FORKED = """
import os, sys
from types import SimpleNamespace
from headspec.provenance import usage
inherited = bytearray(b"1") * 300_000_000
if not os.fork():
    job = SimpleNamespace(log=sys.argv[1:], rule="train", threads=1, wildcards={}, resources={})
    with usage.recorded(job):
        block = bytearray(b"1") * 64_000_000
        inherited[:32_000_000] = bytes(1) * 32_000_000
    os._exit(0)
assert not os.wait()[1]
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no job is a fork")
def test_memory_of_a_fork_is_its_own(tmp_path: Path) -> None:
    """What it makes and what it writes to, but not what it shares with its parent."""
    log = str(tmp_path / "train.log")
    subprocess.run([sys.executable, "-c", FORKED, log], check=True)
    with open(usage.path(log), newline="") as file:
        (row,) = csv.DictReader(file, delimiter="\t")
    assert 91 <= int(row["memory_mb"]) < 170  # 96 MB, and as much again while they are copied


def test_summary_has_the_largest_of_each_rule_and_model(tmp_path: Path) -> None:
    with pytest.raises(HeadspecError, match="no logs"):
        usage.summary(tmp_path)
    rows = {"a": (60, 90, 1000), "b/c": (120, 120, 3000), "d": (600, 600, 2000)}
    for name, (seconds, cpu, memory) in rows.items():
        file = usage.path(str(tmp_path / "logs" / f"{name}.log"))
        file.parent.mkdir(parents=True, exist_ok=True)
        values = ["train", "bert", 2, seconds, cpu, memory, 0, 60, 4000]
        file.write_text("\t".join(usage.COLUMNS) + "\n" + "\t".join(map(str, values)) + "\n")
    (line,) = usage.summary(tmp_path).splitlines()[1:]
    assert line.split() == ["train", "bert", "3", "2.0", "10.0", "60", "3000", "4000", "-", "1.0", "of", "2"]
