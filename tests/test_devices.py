"""Leases on simulated GPUs: processes that are told of ids in their environment, and killed at random."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from headspec import devices
from studies import ROOT

#: a job: it leases, says so, holds for as long as it is told (until killed, if negative), and says so again
JOB = """
import os, sys, time
from headspec import devices

def say(what):
    line = f"{time.monotonic_ns()}\\t{what}\\t{os.environ['CUDA_VISIBLE_DEVICES']}\\t{os.getpid()}\\n"
    os.write(log, line.encode())

log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
devices.lease()
devices.lease()  # once for each process
say("begin")
time.sleep(float(sys.argv[2]) if float(sys.argv[2]) >= 0 else 600)
say("end")
"""


class Machine:
    """Jobs on a machine with simulated GPUs, and what they said of their leases."""

    def __init__(self, folder: Path, gpus: str, **environment: str) -> None:
        self.log = folder / "log"
        self.log.touch()
        own = {"TMPDIR": str(folder), "CUDA_VISIBLE_DEVICES": gpus, "PYTHONPATH": str(ROOT / "workflow")}
        self.environment = os.environ | own | environment
        self.jobs: list[subprocess.Popen] = []
        self.killed: dict[int, int] = {}  # process: when

    def start(self, seconds: float) -> subprocess.Popen:
        command = [sys.executable, "-c", JOB, str(self.log), str(seconds)]
        self.jobs.append(subprocess.Popen(command, env=self.environment))
        return self.jobs[-1]

    def said(self, what: str) -> dict[int, tuple[int, str]]:
        """Process: when it said `what`, and its GPU."""
        lines = [line.split("\t") for line in self.log.read_text().splitlines()]
        return {int(pid): (int(when), gpu) for when, word, gpu, pid in lines if word == what}

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait; the limit is for a deadlock alone."""
        limit = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < limit, self.log.read_text()
            time.sleep(0.02)

    def kill(self, job: subprocess.Popen) -> None:
        self.killed[job.pid] = time.monotonic_ns()
        job.send_signal(signal.SIGKILL)
        job.wait()

    def most_holders(self, gpu: str) -> int:
        """Most processes that had a GPU at one time."""
        ends = {pid: when for pid, (when, _) in self.said("end").items()} | self.killed
        changes = []
        for pid, (when, own) in self.said("begin").items():
            if own == gpu:
                changes += [(when, 1), (ends[pid], -1)]
        return int(np.cumsum([change for _, change in sorted(changes)]).max(initial=0))


@pytest.fixture
def machine(tmp_path):
    """Makes machines; what still runs on them in the end is killed."""
    made: list[Machine] = []

    def of(gpus: str, **environment: str) -> Machine:
        made.append(Machine(tmp_path, gpus, **environment))
        return made[-1]

    yield of
    for job in (job for each in made for job in each.jobs):
        job.kill()
        job.wait()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("share", (1, 2))
def test_no_gpu_has_more_jobs_than_it_may_and_none_is_lost(machine, share, seed):
    """Eight jobs, two GPUs; three jobs are killed while they hold one."""
    rng = np.random.default_rng(seed)
    own = machine("0,1", **{devices.JOBS_PER_GPU: str(share)})
    doomed = set(rng.choice(8, 3, replace=False).tolist())
    jobs = [own.start(-1 if i in doomed else rng.uniform(0, 0.3)) for i in range(8)]
    for i in rng.permutation(sorted(doomed)):
        own.until(lambda: any(jobs[j].pid in own.said("begin") for j in doomed if jobs[j].poll() is None))
        holding = [j for j in doomed if jobs[j].poll() is None and jobs[j].pid in own.said("begin")]
        own.kill(jobs[i if i in holding else holding[0]])
    own.until(lambda: all(job.poll() is not None for job in jobs))
    assert [job.returncode for i, job in enumerate(jobs) if i not in doomed] == [0] * 5
    assert len(own.said("begin")) == 8 and {gpu for _, gpu in own.said("begin").values()} == {"0", "1"}
    assert max(own.most_holders(gpu) for gpu in ("0", "1")) <= share
    # none is lost: as many jobs as there are places have one at once
    last = [own.start(-1) for _ in range(2 * share)]
    own.until(lambda: {job.pid for job in last} <= set(own.said("begin")))
    taken = [gpu for pid, (_, gpu) in own.said("begin").items() if pid in {job.pid for job in last}]
    assert sorted(taken) == ["0"] * share + ["1"] * share


def test_gpus_are_filled_evenly(machine):
    own = machine("0,1", **{devices.JOBS_PER_GPU: "4"})
    pair = [own.start(-1) for _ in range(2)]
    own.until(lambda: {job.pid for job in pair} <= set(own.said("begin")))
    assert {gpu for _, gpu in own.said("begin").values()} == {"0", "1"}


MIG = "MIG-7f6b8c1e-0b6a-5c0e-8e3c-3f8d1f7c2a11", "MIG-GPU-8a56a4bc/1/0"


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        ("0,1", ["0", "1"]),
        (" 3 , 1", ["3", "1"]),
        ("GPU-8932f937,GPU-46b3", ["GPU-8932f937", "GPU-46b3"]),
        (",".join(MIG), list(MIG)),
        ("2", ["2"]),
        ("", []), ("-1", []), ("NoDevFiles", []), ("none", []), ("0;1", []),
        ("0,-1,1", ["0"]),
        ("1,1", ["1"]),
    ],
)  # fmt: skip
def test_what_is_listed_is_leased(machine, monkeypatch, listed, found):
    """Every listed GPU is given to one of as many jobs, which then sees no other."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", listed)
    assert devices.visible() == found and devices.gpu_count() == len(found)
    own = machine(listed)
    jobs = [own.start(-1) for _ in found or [listed]]  # without a GPU, nothing is waited for or changed
    own.until(lambda: {job.pid for job in jobs} <= set(own.said("begin")))
    assert sorted(gpu for _, gpu in own.said("begin").values()) == sorted(found or [listed])


def test_an_index_is_one_among_the_device_files_that_may_be_opened(monkeypatch):
    """Two jobs of a cluster on one machine may both have GPU 0 and mean two: neither waits for the other."""
    names = {}
    for job, files in {"first": ["nvidia2"], "second": ["nvidia3"], "both": ["nvidia2", "nvidia3"]}.items():
        monkeypatch.setattr(devices, "_nodes", lambda files=files: [Path("/dev", name) for name in files])
        names[job] = [devices._device(str(index)) for index in range(len(files))]
    assert names == {"first": ["nvidia2"], "second": ["nvidia3"], "both": ["nvidia2", "nvidia3"]}
