"""Leases of simulated GPUs, by processes that are killed at random."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from headspec import tables
from headspec.models import devices
from headspec.models.stage import ModelStage
from headspec.training.loop import TRAINING
from support.paths import ROOT

#: a job: leases a GPU, logs it, holds it for the given time (if negative, until killed), and logs the end;
#: on as many GPUs as a third argument says
JOB = """
import os, sys, time
from headspec.models import devices

def say(what):
    line = f"{time.monotonic_ns()}\\t{what}\\t{os.environ['CUDA_VISIBLE_DEVICES']}\\t{os.getpid()}\\n"
    os.write(log, line.encode())

log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
devices.lease(*map(int, sys.argv[3:]))
devices.lease()  # has no effect the second time
say("begin")
time.sleep(float(sys.argv[2]) if float(sys.argv[2]) >= 0 else 3600)
say("end")
"""


class Machine:
    """Jobs on a machine with simulated GPUs, and their log."""

    def __init__(self, folder: Path, gpus: str, **environment: str) -> None:
        self.log = folder / "log"
        self.log.touch()
        environ = {"TMPDIR": str(folder), "CUDA_VISIBLE_DEVICES": gpus, "PYTHONPATH": str(ROOT / "workflow")}
        self.environment = os.environ | environ | environment
        self.jobs: list[subprocess.Popen] = []
        self.killed: dict[int, int] = {}  # process: time

    def start(self, seconds: float, gpus: int = 1) -> subprocess.Popen:
        command = [sys.executable, "-c", JOB, str(self.log), str(seconds), str(gpus)]
        self.jobs.append(subprocess.Popen(command, env=self.environment))
        return self.jobs[-1]

    def logged(self, what: str) -> dict[int, tuple[int, str]]:
        """Process: time at which it logged `what`, and its GPU."""
        lines = [line.split("\t") for line in self.log.read_text().splitlines()]
        return {int(pid): (int(when), gpu) for when, word, gpu, pid in lines if word == what}

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait; the limit only catches deadlocks."""
        limit = time.monotonic() + 600
        while not condition():
            assert time.monotonic() < limit, self.log.read_text()
            time.sleep(0.02)

    def kill(self, job: subprocess.Popen) -> None:
        self.killed[job.pid] = time.monotonic_ns()
        job.send_signal(signal.SIGKILL)
        job.wait()

    def most_holders(self, gpu: str) -> int:
        """Most processes that had a GPU at one time."""
        ends = {pid: when for pid, (when, _) in self.logged("end").items()} | self.killed
        changes = []
        for pid, (when, holder_gpu) in self.logged("begin").items():
            if gpu in holder_gpu.split(","):
                changes += [(when, 1), (ends[pid], -1)]
        return int(np.cumsum([change for _, change in sorted(changes)]).max(initial=0))


@pytest.fixture
def machine(tmp_path):
    """Makes machines, and kills their remaining jobs at the end."""
    machines: list[Machine] = []

    def of(gpus: str, **environment: str) -> Machine:
        machines.append(Machine(tmp_path, gpus, **environment))
        return machines[-1]

    yield of
    for job in (job for host in machines for job in host.jobs):
        job.kill()
        job.wait()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("share", (1, 2))
def test_no_gpu_is_overused_or_lost(machine, share, seed):
    """Eight jobs, two GPUs; three jobs are killed while they hold one."""
    rng = np.random.default_rng(seed)
    host = machine("0,1", **{devices.JOBS_PER_GPU: str(share)})
    doomed = set(rng.choice(8, 3, replace=False).tolist())
    jobs = [host.start(-1 if i in doomed else rng.uniform(0, 0.3)) for i in range(8)]
    for i in rng.permutation(sorted(doomed)):
        host.until(lambda: any(jobs[j].pid in host.logged("begin") for j in doomed if jobs[j].poll() is None))
        holding = [j for j in doomed if jobs[j].poll() is None and jobs[j].pid in host.logged("begin")]
        host.kill(jobs[i if i in holding else holding[0]])
    host.until(lambda: all(job.poll() is not None for job in jobs))
    assert [job.returncode for i, job in enumerate(jobs) if i not in doomed] == [0] * 5
    assert len(host.logged("begin")) == 8 and {gpu for _, gpu in host.logged("begin").values()} == {"0", "1"}
    assert max(host.most_holders(gpu) for gpu in ("0", "1")) <= share
    # no slot is lost: as many jobs as there are slots have one at the same time
    last = [host.start(-1) for _ in range(2 * share)]
    host.until(lambda: {job.pid for job in last} <= set(host.logged("begin")))
    taken = [gpu for pid, (_, gpu) in host.logged("begin").items() if pid in {job.pid for job in last}]
    assert sorted(taken) == ["0"] * share + ["1"] * share


def test_jobs_on_two_gpus_have_both_or_wait(machine):
    """Beside jobs on one; none waits for ever for a GPU that another holds while it waits."""
    host = machine("0,1")
    jobs = [host.start(0.2, gpus) for gpus in (2, 1, 2, 1, 2, 3)]
    host.until(lambda: all(job.poll() is not None for job in jobs))
    taken = [host.logged("begin")[job.pid][1] for job in jobs]
    assert [gpus.count(",") + 1 for gpus in taken] == [2, 1, 2, 1, 2, 2]
    assert set(taken[0].split(",")) == {"0", "1"}
    assert host.most_holders("0") == host.most_holders("1") == 1


def test_gpus_are_filled_evenly(machine):
    host = machine("0,1", **{devices.JOBS_PER_GPU: "4"})
    pair = [host.start(-1) for _ in range(2)]
    host.until(lambda: {job.pid for job in pair} <= set(host.logged("begin")))
    assert {gpu for _, gpu in host.logged("begin").values()} == {"0", "1"}


def test_jobs_that_share_a_gpu_have_a_share_of_its_batches(monkeypatch):
    monkeypatch.delenv(devices.JOBS_PER_GPU, raising=False)
    assert {name: devices.sizes(name) for name in devices.SIZES} == devices.SIZES
    monkeypatch.setenv(devices.JOBS_PER_GPU, "4")
    assert devices.sizes("cuda") == (8192, 1024) and devices.sizes("cpu") == devices.SIZES["cpu"]
    monkeypatch.setattr(devices, "lease", lambda gpus: None)
    monkeypatch.setattr(devices, "configure", lambda threads: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert devices.prepare("fp32", 1, microbatches=2) == devices.Device("cuda", None, 4096, 1024)


@pytest.mark.parametrize(
    ("error", "is_memory"),
    [
        (MemoryError(), True),
        (torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB."), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"), True),
        (RuntimeError("CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation'"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`"), False),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
    ],
)
def test_what_running_out_of_memory_says(error, is_memory):
    assert devices.out_of_memory(error) is is_memory


MIG = "MIG-7f6b8c1e-0b6a-5c0e-8e3c-3f8d1f7c2a11", "MIG-GPU-8a56a4bc/1/0"


@pytest.mark.parametrize(
    ("listed", "usable"),
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
def test_listed_gpus_are_leased(machine, monkeypatch, listed, usable):
    """Each of as many jobs gets one of the listed GPUs, and sees no other."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", listed)
    assert devices.visible() == usable and devices.gpu_count() == len(usable)
    host = machine(listed)
    # without GPUs, a job neither waits nor changes the variable
    jobs = [host.start(-1) for _ in usable or [listed]]
    host.until(lambda: {job.pid for job in jobs} <= set(host.logged("begin")))
    assert sorted(gpu for _, gpu in host.logged("begin").values()) == sorted(usable or [listed])


def test_an_index_counts_device_files_that_can_be_opened(monkeypatch):
    """GPU 0 of two cluster jobs on one machine can be different GPUs; neither job waits for the other."""
    names = {}
    for job, files in {"first": ["nvidia2"], "second": ["nvidia3"], "both": ["nvidia2", "nvidia3"]}.items():
        monkeypatch.setattr(devices, "_nodes", lambda files=files: [Path("/dev", name) for name in files])
        names[job] = [devices._device(str(index)) for index in range(len(files))]
    assert names == {"first": ["nvidia2"], "second": ["nvidia3"], "both": ["nvidia2", "nvidia3"]}


@pytest.mark.parametrize(
    ("processor", "faster"),
    [
        ({"avx512_bf16": True, "amx_bf16": True, "cpu_name": "Intel Xeon"}, True),
        ({"avx512_bf16": True, "amx_bf16": False, "cpu_name": "Intel Xeon"}, False),
        ({"avx512_bf16": True, "amx_bf16": False, "cpu_name": "AMD EPYC 9R14"}, True),
        ({"avx512_bf16": False, "amx_bf16": False, "cpu_name": "AMD EPYC 7763"}, False),
        ({"architecture": "aarch64", "cpu_name": "Neoverse-V2"}, False),
    ],
)
def test_bf16_where_the_processor_is_faster_in_it(processor, faster):
    assert devices.bf16_is_faster(processor) is faster


@pytest.mark.parametrize(
    ("jobs", "cores", "threads"),
    [
        (1, 1, 1),
        (1, 2, 2),
        (2, 2, 1),
        (3, 2, 2),  # three rounds of half the time, instead of two rounds of which one is half empty
        (8, 2, 1),
        (2, 8, 4),
        (1, 64, devices.MOST_THREADS),
        (1000, 64, 1),
        (0, 4, 1),
    ],
)
def test_few_jobs_share_all_cores(jobs, cores, threads):
    assert devices.threads_per_job(jobs, cores) == threads


@pytest.mark.parametrize(
    ("precision", "faster", "said"), [("auto", True, 1), ("auto", False, 0), ("fp32", True, 0)]
)
def test_other_hardware_is_mentioned_if_the_precision_follows_it(
    tmp_path, monkeypatch, caplog, precision, faster, said
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(devices, "bf16_is_faster", lambda processor: faster)
    monkeypatch.setattr(devices, "configure", lambda threads: None)
    frame = pd.DataFrame({column: [] for column in TRAINING.columns})
    tables.write("results/s/runs/m/training.parquet", TRAINING, frame, {"precision": "fp32", "device": "cpu"})
    frame.to_parquet("results/s/runs/training.parquet")  # left over, and of no job
    params = SimpleNamespace(precision=precision)
    resources = SimpleNamespace(microbatches=1, gpu=0)
    job = SimpleNamespace(params=params, resources=resources, threads=1, log=["results/s/logs/x.log"])
    with caplog.at_level("WARNING"):
        ModelStage(job)
    expected = (
        "precision: auto is bf16 on cpu here, but results/s/runs/m/training.parquet was made in fp32 on"
    )
    assert caplog.text.count(expected) == said
