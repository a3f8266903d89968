"""Which of two texts is likelier, by the difference of their log-likelihoods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from headspec.tasks.kinds.continuations.head import Pair

if TYPE_CHECKING:
    from headspec.models.multitask import MultiTask


class MinimalPair(Pair):
    """Loss: the log-likelihood of the wrong text minus the right one's."""

    def losses(self, model: MultiTask, states: torch.Tensor, targets: Any) -> torch.Tensor:
        logits = self.logits(model, states, targets)
        return logits[:, 1] - logits[:, 0]


HEAD = MinimalPair
