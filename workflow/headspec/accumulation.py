"""Steps whose batch does not fit into memory: in parts, with the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from headspec.batching import Batch
from headspec.devices import Device, out_of_memory
from headspec.progress import log


class DropoutOfTheWhole(TorchFunctionMode):
    """Inside it, a part of a batch gets its rows of the dropout masks of the whole batch.

    It calls dropout on the shape of the whole batch, so random numbers are drawn as without parts,
    and keeps the rows `part` of `whole`. Dropout that fused attention does inside a GPU kernel is
    out of its reach: there a batch in parts sees other, equally random, masks.
    """

    def __init__(self, part: slice, whole: int) -> None:
        super().__init__()
        self.part, self.whole = part, whole

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is not F.dropout or not kwargs.get("training", True):
            return func(*args, **kwargs)
        states, *_ = args
        if len(states) != self.part.stop - self.part.start:
            return func(*args, **kwargs)  # of something that all examples share
        ones = torch.ones((self.whole, *states.shape[1:]), dtype=states.dtype, device=states.device)
        return states * F.dropout(ones, kwargs.get("p", 0.5))[self.part]


def backward(
    losses: Callable[[Batch], torch.Tensor],
    batch: Batch,
    parameters: list[nn.Parameter],
    parts: int,
    device: Device,
) -> tuple[torch.Tensor, int]:
    """Gradients of a batch's mean loss, in `parts`, or in as many more as memory makes necessary.

    Parameters
    ----------
    losses : every example's loss, (examples,), of a batch or a part of one
    parameters : what gets gradients; they have none yet
    parts : how many pieces the batch goes through the model in, one after another (of two examples
        at least); only one piece's activations are in memory at a time

    Returns
    -------
    loss : the mean loss, a scalar
    parts : how many pieces it took
    """
    before = random_state()
    while True:
        try:
            return _in_parts(losses, batch, parts, device), parts
        except RuntimeError as error:
            if parts >= len(batch.rows) // 2 or not out_of_memory(error):
                raise
        parts *= 2
        log.info("out of memory: batches in %d parts from here", parts)
        for parameter in parameters:
            parameter.grad = None
        torch.cuda.empty_cache()
        set_random_state(before)


def _in_parts(
    losses: Callable[[Batch], torch.Tensor], batch: Batch, parts: int, device: Device
) -> torch.Tensor:
    size = len(batch.rows)
    parts = max(1, min(parts, size // 2))
    if parts == 1:
        with device.cast():
            loss = losses(batch).mean()
        loss.backward()
        return loss.detach()
    total = torch.zeros((), device=device.name)
    before = random_state()
    for part in pieces(size, parts):
        set_random_state(before)
        with device.cast(), DropoutOfTheWhole(part, size):
            loss = losses(batch.part(part)).sum() / size
        loss.backward()
        total += loss.detach()
    return total


def pieces(size: int, parts: int) -> Iterator[slice]:
    """`parts` slices of range(size), of sizes that differ by one at most."""
    for i in range(parts):
        yield slice(size * i // parts, size * (i + 1) // parts)


def random_state() -> dict[str, torch.Tensor]:
    """The state of torch's random numbers: ``rng``, and with a GPU ``cuda_rng``."""
    state = {"rng": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda_rng"] = torch.cuda.get_rng_state()
    return state


def set_random_state(state: dict[str, torch.Tensor]) -> None:
    torch.set_rng_state(state["rng"])
    if "cuda_rng" in state:
        torch.cuda.set_rng_state(state["cuda_rng"])
