"""IAT whose optimizer also updates heads frozen for a batch's task, as in the released code."""

from typing import Any

import numpy as np
import torch

from headspec.models.attention.head_parameters import Slice
from headspec.training.updates import Updates, clip, gradient
from headspec.training.variants.own import Own


class LeakingUpdates:
    """AdamW steps in which heads that a batch's task does not own have a gradient of zero.

    Momentum, from plain training and other tasks' batches, and weight decay still change them. Everything
    else, including gradient clipping, is as in `headspec.training.variants.own.OwnHeads`. `updates` are those
    of the training so far, `slices` every head's slices of the projections, and `owned` is bool (layers,
    heads) by task.
    """

    def __init__(self, updates: Updates, slices: list[Slice], owned: dict[str, np.ndarray]) -> None:
        self.updates = updates
        self.frozen = {task: [s for s in slices if not s.belongs(mask)] for task, mask in owned.items()}

    def step(self, task: str, rate: float) -> torch.Tensor:
        norm = torch.nn.utils.get_total_norm([gradient(p) for p in self.updates.parameters])
        torch._foreach_zero_(
            [s.view(s.parameter.grad) for s in self.frozen[task] if s.parameter.grad is not None]
        )
        clip(self.updates.parameters, self.updates.clip, norm)
        self.updates.apply(rate)
        return norm

    def state_dict(self) -> dict[str, Any]:
        return self.updates.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.updates.load_state_dict(state)


class Leaking(Own):
    """Batches have gradients only for the heads that their task owns, but the optimizer updates all."""

    updates = LeakingUpdates


RESTRICTION = Leaking
