"""The device of a stage: leased GPUs, threads, precision and batch sizes; errors for non-finite numbers."""

from __future__ import annotations

import itertools
import math
import os
import random
import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from filelock import FileLock, Timeout

from headspec.errors import NumericalError
from headspec.progress import log

if TYPE_CHECKING:
    import torch


GPU_ID = re.compile(r"\d+|(GPU|MIG)-.+")
#: tokens and examples per batch that keep the device busy; on a CPU their states stay in its cache
SIZES = {"cpu": (768, 256), "cuda": (32_768, 4096)}
#: out-of-memory errors of torch, of the CPU, and of CUDA and its library if other processes use the memory
OUT_OF_MEMORY = ("OutOfMemory", "can't allocate memory", "CUDA error: out of memory", "STATUS_ALLOC_FAILED")
#: their classes: on a CPU, torch raises a RuntimeError
MEMORY_ERRORS = RuntimeError, MemoryError
MOST_THREADS = 8  # per job: batches are too small for more
JOBS_PER_GPU = "HEADSPEC_JOBS_PER_GPU"  # environment variable: jobs that share a GPU, 1 by default
_leases: list[FileLock] = []  # kept alive: a lease lasts as long as the process


def visible() -> list[str]:
    """Return the NVIDIA GPUs that this process may use, without importing torch.

    They are the entries of CUDA_VISIBLE_DEVICES, indices or UUIDs of GPUs or MIG instances, up to the first
    that is neither; if the variable is not set, all GPUs that this process may open.
    """
    devices = os.environ.get("CUDA_VISIBLE_DEVICES")
    if devices is None:
        return [str(index) for index in range(len(_nodes()))]
    entries = map(str.strip, devices.split(","))
    return list(dict.fromkeys(itertools.takewhile(GPU_ID.fullmatch, entries)))


def gpu_count() -> int:
    """Return the number of `visible` GPUs."""
    return len(visible())


def threads_per_job(jobs: int, cores: int) -> int:
    """Return the threads t per job, up to `MOST_THREADS`, with which `jobs` jobs finish soonest.

    Assumes that t threads are t^0.9 times as fast as one.
    """

    def time(threads: int) -> float:
        rounds = math.ceil(jobs / (cores // threads))
        return float(rounds / threads**0.9)

    return min(range(1, min(cores, MOST_THREADS) + 1), key=time)


def lease_gpus(wanted: int = 1) -> None:
    """Reserve `wanted` visible GPUs (at most all), or a share of each, for this process, before CUDA starts.

    Snakemake counts GPUs but does not assign them to jobs. A job therefore locks a slot of each GPU, and
    hides other GPUs from itself. If too few are free, it waits without holding any. The operating system
    releases the locks of a process that ends or is killed. Jobs spread evenly over GPUs. Does nothing without
    GPUs, or if the process has already reserved some.
    """
    gpus = visible()
    if not gpus or _leases:
        return
    wanted = min(max(wanted, 1), len(gpus))
    folder = Path(tempfile.gettempdir()) / f"headspec-gpus-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    slots = range(int(os.environ.get(JOBS_PER_GPU, "1")))
    locks = [(gpu, FileLock(folder / f"{_device(gpu)}.{slot}")) for slot in slots for gpu in gpus]
    announced = False
    while True:
        taken: dict[str, FileLock] = {}
        for gpu, lock in locks:
            if gpu not in taken and len(taken) < wanted:
                with suppress(Timeout):
                    lock.acquire(blocking=False)
                    taken[gpu] = lock
        if len(taken) == wanted:
            _leases.extend(taken.values())
            os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(taken)
            return
        for lock in taken.values():
            lock.release()
        if not announced:
            log.info("waiting for a GPU: other jobs use %s", ", ".join(gpus))
            announced = True
        time.sleep(random.uniform(0.1, 0.3))  # random, so that two jobs do not block each other forever


def _nodes() -> list[Path]:
    """Return device files of the GPUs that this process may open, in order; cluster jobs see only theirs."""
    nodes = [path for path in Path("/dev").glob("nvidia[0-9]*") if os.access(path, os.R_OK | os.W_OK)]
    return sorted(nodes, key=lambda path: int(path.name.removeprefix("nvidia")))


def _device(gpu: str) -> str:
    """Return the lock's name for an entry of `visible`: that of its device file, or its UUID.

    Indices count GPUs that can be opened, so GPU 0 of two cluster jobs on one machine may be different GPUs.
    """
    nodes = _nodes()
    if gpu.isdecimal() and int(gpu) < len(nodes):
        return nodes[int(gpu)].name
    return gpu.replace("/", "_")


@dataclass(frozen=True)
class Device:
    """A device, its autocast dtype (None: everything in float32), and its batch sizes."""

    name: str
    autocast: str | None
    tokens: int = 768  # per batch, padding included, where the batch size does not change results
    examples: int = 256  # maximum per such batch
    fewest: int = 1  # minimum, even if they exceed `tokens`

    def sharing(self, n: int) -> Device:
        """Return the device with smaller batches, for examples that are held `n` times in memory."""
        tokens, examples, fewest = (max(1, k // n) for k in (self.tokens, self.examples, self.fewest))
        return replace(self, tokens=tokens, examples=examples, fewest=fewest)

    def cast(self) -> torch.autocast:
        """Return the autocast context for this device's precision."""
        import torch

        dtype = getattr(torch, self.autocast) if self.autocast else None
        return torch.autocast(self.name, dtype, enabled=dtype is not None)

    @property
    def precision(self) -> str:
        """Precision of passes, as in the config."""
        return "bf16" if self.autocast else "fp32"


def out_of_memory(error: Exception) -> bool:
    """Return whether the GPU or the machine ran out of memory."""
    text = f"{type(error).__name__}: {error}"
    return isinstance(error, MemoryError) or any(message in text for message in OUT_OF_MEMORY)


def always_mask() -> None:
    """Make transformers always build attention masks; checking whether one is needed waits for the GPU."""
    from transformers.masking_utils import AttentionMaskInterface, eager_mask, sdpa_mask

    skips = {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
    for name, make in {"sdpa": sdpa_mask, "eager": eager_mask}.items():
        AttentionMaskInterface.register(name, lambda *args, make=make, **more: make(*args, **more | skips))


def bf16_is_faster(processor: Mapping[str, Any]) -> bool:
    """Return whether a CPU with these `torch.cpu.get_capabilities()` multiplies faster in bf16 than in fp32.

    CPUs with AMX or AMD's AVX-512 do. With Intel's AVX-512 alone, bf16 has half the speed of fp32.
    """
    avx512 = processor.get("avx512_bf16", False) and not processor["cpu_name"].startswith("Intel")
    return bool(processor.get("amx_bf16", False) or avx512)


def configure(threads: int) -> None:
    """Configure torch and transformers for this process and its device."""
    import torch

    torch.set_num_threads(threads)
    if torch.cuda.is_available():
        always_mask()
        torch.backends.cuda.enable_cudnn_sdp(False)  # it plans every shape, which takes milliseconds


def sizes(name: str) -> tuple[int, int]:
    """Return the most tokens and examples of a batch on a job's share of the device, "cpu" or "cuda"."""
    jobs = int(os.environ.get(JOBS_PER_GPU, "1")) if name == "cuda" else 1
    tokens, examples = SIZES[name]
    return tokens // jobs, examples // jobs


def prepare(precision: str, threads: int, microbatches: int = 1, gpus: int = 1) -> Device:
    """Choose the device of this process and set `threads` CPU threads.

    `precision` is "fp32", "bf16" or "auto": bf16 where the hardware is faster in it. `microbatches` divides
    the tokens of a batch, after attempts that ran out of memory. `gpus` are leased, if there are any.
    """
    lease_gpus(gpus)
    configure(threads)
    import torch

    name = "cuda" if torch.cuda.is_available() else "cpu"
    if precision == "auto":
        if name == "cuda":
            faster = torch.cuda.get_device_capability()[0] >= 8
        else:
            faster = bf16_is_faster(torch.cpu.get_capabilities())
        precision = "bf16" if faster else "fp32"
    autocast = "bfloat16" if precision == "bf16" else None
    tokens, examples = sizes(name)
    # matrix products in bf16 need more rows to be fast
    fewest = max(1, 24 // microbatches) if (name, precision) == ("cpu", "bf16") else 1
    return Device(name, autocast, max(1, tokens // microbatches), examples, fewest)


def require_finite(values: np.ndarray, what: str, examples: np.ndarray, device: Device) -> None:
    """Raise NumericalError if some `values`, (n, ...), of the numbered `examples` (n,) are not finite."""
    invalid = ~np.isfinite(values).reshape(len(values), -1).all(axis=1)
    if invalid.any():
        count = f"{invalid.sum()} of {len(invalid)} examples, such as {examples[invalid][0]}"
        raise unusable(f"{what}, of {count}", device)


def unusable(what: str, device: Device) -> NumericalError:
    """Return the error for a model with non-finite output."""
    precision = "precision: fp32 (now bf16) or " if device.autocast else ""
    rate = "a smaller training.learning_rate, if training caused it"
    return NumericalError(f"{what}: nan or infinite; try {precision}{rate}")


def divergence(steps: Sequence[Sequence[float]]) -> tuple[int, str] | None:
    """Return index and problem of the first non-finite (loss, gradient norm) in `steps`; None without one."""
    for number, (loss, norm) in enumerate(steps):
        if not math.isfinite(loss):
            return number, f"the loss is {loss}"
        if not math.isfinite(norm):
            return number, f"the loss is {loss:.3g}, but the norm of its gradient is {norm}"
    return None


def diverged(
    where: str, what: str, key: str, rate: float, clip: float | None, device: Device, kept: str = ""
) -> NumericalError:
    """Return the error for training that diverged at step and task `where`; `what` is the problem.

    `key` names the learning `rate`, `clip` is training.clip; `kept`, on the state to continue from, ends the
    message.
    """
    remedies = [f"a smaller {key} (now {rate:g})"]
    if clip is None:
        remedies.append("training.clip: 1.0 (now null)")
    if device.autocast:
        remedies.append("precision: fp32 (now bf16)")
    return NumericalError(f"{where}: {what}; try {' or '.join(remedies)}{kept}")
