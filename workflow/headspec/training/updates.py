"""Optimizer steps, and gradients of batches that are split to fit memory or across GPUs.

The gradients equal those of the whole batch up to rounding, except with dropout inside fused attention on a
GPU, where the masks differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from headspec.config.sections.training import Training
from headspec.models.batching import Batch
from headspec.models.devices import MEMORY_ERRORS, Device, out_of_memory
from headspec.models.multitask import MultiTask
from headspec.progress import log
from headspec.seeds import derive
from headspec.training import parallel


class DropoutOfTheWhole(TorchFunctionMode):
    """Mode in which part of a batch gets its rows of the whole batch's dropout masks.

    Dropout draws for the `whole` batch, as without microbatches, and keeps the rows `part`. Fused attention
    draws its masks internally: there, each part gets random numbers of its own, since all parts would
    otherwise have the same masks.
    """

    def __init__(self, part: slice, whole: int) -> None:
        super().__init__()
        self.part, self.whole, self.fused = part, whole, 0

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.scaled_dot_product_attention and kwargs.get("dropout_p"):
            with self._own_numbers():
                return func(*args, **kwargs)
        if func is not F.dropout or not kwargs.get("training", True):
            return func(*args, **kwargs)
        states, *_ = args
        if len(states) != self.part.stop - self.part.start:
            return func(*args, **kwargs)  # has no rows of examples
        ones = torch.ones((self.whole, *states.shape[1:]), dtype=states.dtype, device=states.device)
        return states * F.dropout(ones, kwargs.get("p", 0.5))[self.part]

    @contextmanager
    def _own_numbers(self) -> Iterator[None]:
        """Use random numbers that no other part or call uses; restore the state afterwards."""
        before = random_state()
        states = b"".join(state.numpy().tobytes() for state in before.values())
        self.fused += 1
        torch.manual_seed(derive(self.part.start, self.fused, hashlib.sha256(states).hexdigest()))
        yield
        set_random_state(before)


def backward(
    losses: Callable[[Batch], torch.Tensor],
    batch: Batch,
    parameters: Sequence[torch.Tensor],
    microbatches: int,
    device: Device,
) -> tuple[torch.Tensor, int]:
    """Compute the gradients of a batch's mean loss in `microbatches`, or in more if memory runs out.

    Microbatches of at least two examples pass through the model one after another, so that memory holds the
    activations of only one at a time. Processes that train together each compute a share of the batch.
    `losses` returns each example's loss, (examples,), for a batch or a part; `parameters` receive gradients,
    and must have none yet. Returns the mean loss, a scalar, and the number of microbatches used. Raises
    torch's RuntimeError, or MemoryError, if memory runs out even with the smallest microbatches.
    """
    before = random_state()
    size = len(batch.rows)
    rows = parallel.share(size)
    while True:
        try:
            loss = _in_microbatches(losses, batch, rows, microbatches, device)
            parallel.add_up([loss, *(p.grad for p in parameters if p.grad is not None)], size)
            return loss, microbatches
        except MEMORY_ERRORS as error:
            if microbatches >= (rows.stop - rows.start) // 2 or not out_of_memory(error):
                raise
        microbatches *= 2
        log.info("out of memory: batches in %d microbatches from here", microbatches)
        for parameter in parameters:
            parameter.grad = None
        torch.cuda.empty_cache()
        set_random_state(before)


def _in_microbatches(
    losses: Callable[[Batch], torch.Tensor], batch: Batch, rows: slice, microbatches: int, device: Device
) -> torch.Tensor:
    """Return the summed losses of `rows` / the size of the whole batch, a scalar, and add its gradients."""
    size, n = len(batch.rows), rows.stop - rows.start
    microbatches = max(1, min(microbatches, n // 2))
    if n == size and microbatches == 1:
        with device.cast():
            loss = losses(batch).mean()  # of (examples,)
        loss.backward()
        return loss.detach()
    total = torch.zeros((), device=device.name)
    before = random_state()
    for part in slices(rows, microbatches):
        set_random_state(before)
        with device.cast(), DropoutOfTheWhole(part, size):
            loss = losses(batch.part(part)).sum() / size  # a scalar
        loss.backward()
        total += loss.detach()
    return total


def slices(rows: slice, microbatches: int) -> Iterator[slice]:
    """Divide `rows` into `microbatches` slices, whose sizes differ by at most one."""
    n = rows.stop - rows.start
    for i in range(microbatches):
        yield slice(rows.start + n * i // microbatches, rows.start + n * (i + 1) // microbatches)


def random_state() -> dict[str, torch.Tensor]:
    """Return the state of torch's random number generators: ``rng``, and on a GPU ``cuda_rng``."""
    state = {"rng": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda_rng"] = torch.cuda.get_rng_state()
    return state


def set_random_state(state: dict[str, torch.Tensor]) -> None:
    """Restore what `random_state` returned."""
    torch.set_rng_state(state["rng"])
    if "cuda_rng" in state:
        torch.cuda.set_rng_state(state["cuda_rng"])


class UpdateRule(Protocol):
    """How the gradients of a step update the weights."""

    def step(self, task: str, rate: float) -> torch.Tensor:
        """Apply and clear the gradients of a batch of `task`; return their norm, a scalar."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


def clip(parameters: Iterable[torch.Tensor], max_norm: float | None, norm: torch.Tensor) -> None:
    """Scale gradients of total norm `norm`, a scalar, down to `max_norm`; None leaves them unchanged."""
    if max_norm is not None:
        torch.nn.utils.clip_grads_with_norm_(parameters, max_norm, norm)


def gradient(parameter: torch.nn.Parameter) -> torch.Tensor:
    """Return a parameter's gradient, of its shape, or zeros if the loss does not depend on it."""
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


class Updates:
    """AdamW steps on all trainable parameters of a model, with gradient clipping.

    Decoders of words may have their own learning rate, a multiple of the common one.
    """

    def __init__(self, model: MultiTask, settings: Training) -> None:
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.clip = settings.clip
        groups: list[dict[str, Any]] = [{"params": self.parameters, "multiple": 1.0}]
        if own := settings.decoder_learning_rate:
            own_heads = [head for head in model.task_heads if head.own_rate]
            faster = [parameter for head in own_heads for parameter in head.parameters()]
            decoder_ids = set(map(id, faster))
            others = [parameter for parameter in self.parameters if id(parameter) not in decoder_ids]
            groups = [
                {"params": others, "multiple": 1.0},
                {"params": faster, "multiple": own / settings.learning_rate},
            ]
        self.optimizer = torch.optim.AdamW(groups, weight_decay=settings.weight_decay, fused=True)

    def step(self, task: str, rate: float) -> torch.Tensor:
        """Update with the gradients of a batch; return their norm before clipping, a scalar."""
        norm = torch.nn.utils.get_total_norm([p.grad for p in self.parameters if p.grad is not None])
        clip(self.parameters, self.clip, norm)
        self.apply(rate)
        return norm

    def apply(self, rate: float) -> None:
        """Apply and clear the current gradients."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["multiple"]
        self.optimizer.step()
        self.optimizer.zero_grad()

    def state_dict(self) -> dict[str, Any]:
        return self.optimizer.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.optimizer.load_state_dict(state)
