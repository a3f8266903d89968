"""What makes a step of the gradients in the weights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

import torch

from headspec.multitask import MultiTask

if TYPE_CHECKING:
    from headspec.sections import Training


class Stepping(Protocol):
    """What makes a step of the gradients in the weights."""

    def step(self, task: str, rate: float) -> torch.Tensor:
        """With the gradients of a batch of `task`, which are gone afterwards; their norm, a scalar."""

    def state_dict(self) -> dict: ...

    def load_state_dict(self, state: dict) -> None: ...


def clip(parameters: Iterable[torch.Tensor], largest: float | None, norm: torch.Tensor) -> None:
    """Scale gradients, of which `norm` is the norm, to the `largest` one; None leaves them alone."""
    if largest is not None:
        torch.nn.utils.clip_grads_with_norm_(parameters, largest, norm)


class Updates:
    """AdamW steps on every parameter of a model that learns, its gradient clipped."""

    def __init__(self, model: MultiTask, settings: Training) -> None:
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.clip = settings.clip
        self.optimizer = torch.optim.AdamW(self.parameters, weight_decay=settings.weight_decay, fused=True)

    def step(self, task: str, rate: float) -> torch.Tensor:
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        norm = torch.nn.utils.get_total_norm([p.grad for p in self.parameters if p.grad is not None])
        clip(self.parameters, self.clip, norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return norm

    def state_dict(self) -> dict:
        return self.optimizer.state_dict()

    def load_state_dict(self, state: dict) -> None:
        self.optimizer.load_state_dict(state)
