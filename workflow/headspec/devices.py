"""Where a stage computes: device, lease on a GPU, threads, precision."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

#: tokens and examples per batch that keep a device busy
SIZES = {"cpu": (2048, 256), "cuda": (32_768, 4096)}

_leases: list = []  # open lock files: a lease lasts as long as the process


def gpu_count() -> int:
    """NVIDIA GPUs of this machine, counted without loading torch."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([v for v in visible.split(",") if v.strip() not in ("", "-1", "NoDevFiles")])
    return len(list(Path("/dev").glob("nvidia[0-9]*")))


def lease() -> None:
    """Give this process a GPU of its own; call it before CUDA starts.

    Snakemake counts GPUs but does not say which job has which, so each job locks one. What a
    cluster has set in CUDA_VISIBLE_DEVICES is left alone. The lock ends with the process.
    """
    if "CUDA_VISIBLE_DEVICES" in os.environ or gpu_count() == 0:
        return
    folder = Path(tempfile.gettempdir()) / f"headspec-gpus-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    while True:
        for index in range(gpu_count()):
            file = open(folder / str(index), "w")  # noqa: SIM115 - held until the process ends
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.close()
                continue
            _leases.append(file)
            os.environ["CUDA_VISIBLE_DEVICES"] = str(index)
            return
        time.sleep(1)


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
