"""Leases of simulated GPUs, by processes that are killed at random."""

import itertools
import os
import selectors
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
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
from support.tiers import cases

#: a job: leases as many GPUs as its argument says, tells which, and holds them until its input ends
JOB = """
import os, sys
from headspec.models import devices

devices.lease_gpus(int(sys.argv[1]))
devices.lease_gpus()  # has no effect the second time
print(os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
sys.stdin.read()
"""


class Machine:
    """Jobs on a machine with simulated GPUs; `holding` has the GPUs of those that have some."""

    def __init__(self, folder: Path) -> None:
        self.environment = os.environ | {"TMPDIR": str(folder), "PYTHONPATH": str(ROOT / "workflow")}
        self.holding: dict[subprocess.Popen, list[str]] = {}
        self.waiting = selectors.DefaultSelector()

    def has(self, gpus: str, share: int = 1) -> None:
        """Let the machine have these GPUs, each for so many jobs."""
        self.environment |= {"CUDA_VISIBLE_DEVICES": gpus, devices.JOBS_PER_GPU: str(share)}

    def start(self, *numbers: int) -> None:
        """Start a job for each of these numbers of GPUs."""
        for gpus in numbers:
            command = [sys.executable, "-c", JOB, str(gpus)]
            job = subprocess.Popen(
                command, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            assert job.stdout is not None
            self.waiting.register(job.stdout, selectors.EVENT_READ, job)

    def held(self, jobs: int) -> dict[str, int]:
        """The number of jobs that hold each GPU, once so many jobs hold some."""
        while len(self.holding) < jobs:
            for key, _ in self.waiting.select():
                self.waiting.unregister(key.fileobj)
                self.holding[key.data] = key.data.stdout.readline().strip().split(",")
        return Counter(itertools.chain(*self.holding.values()))

    def end(self, job: subprocess.Popen, killed: bool = False) -> list[str]:
        """End a job, or kill it while it holds GPUs, which are returned."""
        if killed:
            job.kill()
        job.communicate()
        assert killed or job.returncode == 0
        return self.holding.pop(job)


@pytest.fixture
def machine(tmp_path) -> Iterator[Machine]:
    host = Machine(tmp_path)
    yield host
    for job in [*host.holding, *(key.data for key in host.waiting.get_map().values())]:
        job.kill()
        job.communicate()


@pytest.mark.parametrize(("share", "seed"), cases(itertools.product((1, 2), range(4)), (2, 1).__eq__))
def test_no_gpu_is_overused_or_lost(machine, share, seed):
    """Eight jobs on two GPUs, three of which are killed while they hold one."""
    rng, full = np.random.default_rng(seed), {"0": share, "1": share}
    machine.has("0,1", share)
    doomed = set(rng.choice(8, 3, replace=False).tolist())
    machine.start(*[1] * 8)
    for number in range(8):
        held = machine.held(min(2 * share, 8 - number))
        assert held == full or (8 - number < 2 * share and max(held.values()) <= share)
        machine.end(list(machine.holding)[rng.integers(len(machine.holding))], number in doomed)
    machine.start(*[1] * 2 * share)
    assert machine.held(2 * share) == full


def test_jobs_on_two_gpus_have_both_or_wait(machine):
    """Beside jobs on one; none waits for ever for a GPU that another holds while it waits."""
    machine.has("0,1")
    found = []
    machine.start(2, 1, 2, 1, 2, 3)
    for _ in range(6):
        assert max(machine.held(1).values()) == 1
        found.append(machine.end(next(iter(machine.holding))))
    assert sorted(map(len, found)) == [1, 1, 2, 2, 2, 2]
    assert all({*gpus} == {"0", "1"} for gpus in found if len(gpus) == 2)


def test_jobs_that_share_a_gpu_have_a_share_of_its_batches(monkeypatch):
    monkeypatch.delenv(devices.JOBS_PER_GPU, raising=False)
    assert {name: devices.sizes(name) for name in devices.SIZES} == devices.SIZES
    monkeypatch.setenv(devices.JOBS_PER_GPU, "4")
    assert devices.sizes("cuda") == (8192, 1024) and devices.sizes("cpu") == devices.SIZES["cpu"]
    monkeypatch.setattr(devices, "lease_gpus", lambda gpus: None)
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
    """Each of as many jobs gets one of the listed GPUs, even if they may share one, and sees no other."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", listed)
    assert devices.visible() == usable and devices.gpu_count() == len(usable)
    machine.has(listed, 4)
    machine.start(*[1] * (len(usable) or 1))
    # without GPUs, a job neither waits nor changes the variable
    assert machine.held(len(usable) or 1) == Counter(usable or [*listed.split(",")])


def test_an_index_counts_device_files_that_can_be_opened(monkeypatch):
    """GPU 0 of two cluster jobs on one machine can be different GPUs; neither job waits for the other."""
    for files in (["nvidia2"], ["nvidia3"], ["nvidia2", "nvidia3"]):
        monkeypatch.setattr(devices, "_nodes", lambda files=files: [Path("/dev", name) for name in files])
        assert [devices._device(str(index)) for index in range(len(files))] == files


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
        (1, 1, 1), (1, 2, 2), (2, 2, 1), (8, 2, 1), (2, 8, 4), (1, 64, devices.MOST_THREADS), (1000, 64, 1),
        (3, 2, 2),  # three rounds of half the time, instead of two rounds of which one is half empty
        (0, 4, 1),
    ],
)  # fmt: skip
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
    params, resources = SimpleNamespace(precision=precision), SimpleNamespace(microbatches=1, gpu=0)
    with caplog.at_level("WARNING"):
        ModelStage(
            SimpleNamespace(params=params, resources=resources, threads=1, log=["results/s/logs/x.log"])
        )
    made = "results/s/runs/m/training.parquet was made in fp32 on"
    assert caplog.text.count(f"precision: auto is bf16 on cpu here, but {made}") == said
