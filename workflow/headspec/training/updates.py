"""Optimizer steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import torch

from headspec.config.sections.training import Training
from headspec.models.multitask import MultiTask


class UpdateRule(Protocol):
    """How the gradients of a step move the weights."""

    def step(self, task: str, rate: float) -> torch.Tensor:
        """Apply and clear the gradients of a batch of `task`, and return their norm, a scalar."""

    def state_dict(self) -> dict: ...

    def load_state_dict(self, state: dict) -> None: ...


def clip(parameters: Iterable[torch.Tensor], max_norm: float | None, norm: torch.Tensor) -> None:
    """Scale gradients of total norm `norm` down to `max_norm`; None leaves them unchanged."""
    if max_norm is not None:
        torch.nn.utils.clip_grads_with_norm_(parameters, max_norm, norm)


def gradient(parameter: torch.nn.Parameter) -> torch.Tensor:
    """Return a parameter's gradient, or zeros if the loss does not depend on it."""
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


class Updates:
    """AdamW steps on all trainable parameters of a model, with gradient clipping.

    Decoders of words may have their own learning rate, a multiple of the common one.
    """

    def __init__(self, model: MultiTask, settings: Training) -> None:
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.clip = settings.clip
        groups: list[dict[str, Any]] = [{"params": self.parameters, "multiple": 1.0}]
        if own := getattr(settings, "decoder_learning_rate", None):  # only runs with word tasks have it
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
        norm = torch.nn.utils.get_total_norm([p.grad for p in self.parameters if p.grad is not None])
        clip(self.parameters, self.clip, norm)
        self.apply(rate)
        return norm

    def apply(self, rate: float) -> None:
        """Apply and clear the present gradients."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["multiple"]
        self.optimizer.step()
        self.optimizer.zero_grad()

    def state_dict(self) -> dict:
        return self.optimizer.state_dict()

    def load_state_dict(self, state: dict) -> None:
        self.optimizer.load_state_dict(state)
