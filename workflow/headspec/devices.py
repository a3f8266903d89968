"""Where a stage computes: device, lease on a GPU, threads, precision."""

from __future__ import annotations

import itertools
import os
import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from headspec.progress import log

GPU_ID = re.compile(r"\d+|(GPU|MIG)-.+")
#: tokens and examples per batch that keep a device busy
SIZES = {"cpu": (2048, 256), "cuda": (32_768, 4096)}
JOBS_PER_GPU = "HEADSPEC_JOBS_PER_GPU"  # environment variable: jobs that may share a GPU; one without it
_leases: list[FileLock] = []  # a lease lasts as long as the process


def visible() -> list[str]:
    """The NVIDIA GPUs that this process may use, found without loading torch.

    As in CUDA_VISIBLE_DEVICES: indices, or UUIDs of GPUs or of MIG parts; without the variable, the
    indices of all that are here. As for CUDA, the list ends where an entry is none.
    """
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return [str(index) for index in range(len(_nodes()))]
    entries = map(str.strip, listed.split(","))
    return list(dict.fromkeys(itertools.takewhile(GPU_ID.fullmatch, entries)))


def gpu_count() -> int:
    return len(visible())


def lease() -> None:
    """Give this process one of the visible GPUs, alone or with its share; call it before CUDA starts.

    Snakemake counts GPUs but does not say which job has which, so each job locks one, or one of the
    places on one, before it looks, and then sees no other. It waits where all are taken. The
    operating system ends the lock with the process, however that ends. GPUs are filled evenly. Jobs
    that have several values of JOBS_PER_GPU respect the largest.
    """
    gpus = visible()
    if not gpus or _leases:
        return
    folder = Path(tempfile.gettempdir()) / f"headspec-gpus-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    places = range(int(os.environ.get(JOBS_PER_GPU, "1")))
    locks = [(gpu, FileLock(folder / f"{_device(gpu)}.{place}")) for place in places for gpu in gpus]
    told = False
    while not _leases:
        for gpu, lock in locks:
            try:
                lock.acquire(blocking=False)
            except Timeout:
                continue
            _leases.append(lock)
            os.environ["CUDA_VISIBLE_DEVICES"] = gpu
            return
        if not told:
            log.info("waiting for a GPU: other jobs have all of %s", ", ".join(gpus))
            told = True
        time.sleep(0.2)


def _nodes() -> list[Path]:
    """Device files of the GPUs that this process may open, in order; a cluster's job has only its own."""
    found = [path for path in Path("/dev").glob("nvidia[0-9]*") if os.access(path, os.R_OK | os.W_OK)]
    return sorted(found, key=lambda path: int(path.name.removeprefix("nvidia")))


def _device(gpu: str) -> str:
    """What is locked for an entry of `visible`.

    An index is one among the GPUs that a process may open: two jobs of a cluster on one machine may
    both have GPU 0 and mean two, so it is the device file's name that counts.
    """
    nodes = _nodes()
    if gpu.isdecimal() and int(gpu) < len(nodes):
        return nodes[int(gpu)].name
    return gpu.replace("/", "_")


@dataclass(frozen=True)
class Device:
    """A device, and the type that autocast computes in (None: float32 throughout)."""

    name: str
    autocast: str | None
    tokens: int = 2048  # per batch, padding included, where the batch does not change the result
    examples: int = 256  # of such a batch, at most

    def cast(self):
        """The autocast context of this device's precision."""
        import torch

        dtype = getattr(torch, self.autocast) if self.autocast else None
        return torch.autocast(self.name, dtype, enabled=dtype is not None)

    @property
    def precision(self) -> str:
        return "bf16" if self.autocast else "fp32"


def out_of_memory(error: Exception) -> bool:
    """Whether memory, of the GPU or of the machine, was not enough."""
    words = f"{type(error).__name__}: {error}"  # on a CPU, torch raises a RuntimeError
    return isinstance(error, MemoryError) or "OutOfMemory" in words or "can't allocate memory" in words


def always_mask() -> None:
    """Have transformers make every attention mask: to leave one out it would ask the GPU about padding.

    It would ask in every pass, and the processor would wait for all that the GPU has still to do.
    """
    from transformers.masking_utils import AttentionMaskInterface, eager_mask, sdpa_mask

    asked = {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
    for name, make in {"sdpa": sdpa_mask, "eager": eager_mask}.items():
        AttentionMaskInterface.register(name, lambda *args, make=make, **more: make(*args, **more | asked))


def prepare(precision: str, threads: int, parts: int = 1) -> Device:
    """The device for this process, with `threads` CPU threads.

    Parameters
    ----------
    precision : {"auto", "fp32", "bf16"}
        `auto` is bf16 where the hardware multiplies in it, else fp32.
    parts : by how much batches are to be smaller, after an attempt that ran out of memory
    """
    lease()
    import torch

    torch.set_num_threads(threads)
    name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda":
        always_mask()
    if precision == "auto":
        if name == "cuda":
            native = torch.cuda.get_device_capability()[0] >= 8
        else:
            native = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
        precision = "bf16" if native else "fp32"
    autocast = "bfloat16" if precision == "bf16" else None
    tokens, examples = SIZES[name]
    return Device(name, autocast, max(1, tokens // parts), examples)
