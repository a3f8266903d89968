"""IAT that rescores heads during training, so that a task owns the heads that are now important to it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from headspec.heads.importance import importance
from headspec.heads.ranking import importance_map
from headspec.progress import log
from headspec.seeds import derive
from headspec.training.iat import owned_heads
from headspec.training.loop import Gating, Trainer
from headspec.training.variants.own import Moments, Own, OwnHeads


class ChangingHeads(OwnHeads):
    """`OwnHeads` whose owners can change; every slice keeps its moments and step count."""

    def moments(self) -> list[Moments]:
        """Return the moments of every slice."""
        moments: dict[int, Moments] = {}
        for group in self.groups.values():
            state = self.optimizer.state.get(group.copy, {})
            parts = {name: v.split(group.sizes) for name, v in state.items() if name != "step"}
            for i, s in enumerate(group.slices):
                step = {"step": state["step"]} if state else {}
                moments[id(s)] = step | {name: part[i] for name, part in parts.items()}
        return [moments[id(s)] for s in self.slices]

    def state_dict(self) -> dict[str, Any]:
        owned = {task: torch.from_numpy(mask) for task, mask in self.owned.items()}
        return {"updates": self.updates.state_dict(), "owned": owned, "moments": self.moments()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.updates.load_state_dict(state["updates"])
        device = self.slices[0].parameter.device
        moved = [
            {k: v if k == "step" else v.to(device) for k, v in each.items()} for each in state["moments"]
        ]
        self.own({task: mask.numpy() for task, mask in state["owned"].items()}, moved)


class Rescored(Own):
    """Batches update only the heads that their task owns, chosen again by importance every few steps.

    `heads` are the initial choice. In `variant`, `alpha` is the fraction of all heads that a task owns,
    `rescorings` how often heads are rescored, at equal intervals, and `samples` the number of training
    examples per task for importance.
    """

    updates = ChangingHeads

    @contextmanager
    def applied(self, run: Trainer) -> Iterator[None]:
        with super().applied(run):
            if isinstance(run.updates, ChangingHeads):
                point, n = len(run.history), len(run.steps)
                parts = self.variant["rescorings"] + 1
                steps = {point + (n - point) * i // parts for i in range(1, parts)} - {point}
                run.gating = Rescoring(self, steps)
            yield
        run.gating = None


class Rescoring(Gating):
    """Rescoring of heads before the numbered `steps`; it has no gates, and no state besides the updates'."""

    def __init__(self, settings: Rescored, steps: set[int]) -> None:
        self.settings, self.steps = settings, steps

    def begin(self, run: Trainer, number: int) -> list[torch.Tensor]:
        if number in self.steps:
            assert isinstance(run.updates, ChangingHeads)
            seed, variant = self.settings.seed, self.settings.variant
            rng = np.random.default_rng(derive(seed, "iat rescored", number))
            frame = importance(run.model, run.examples, variant["samples"], rng, run.device)
            maps = {task: importance_map(frame, task) for task in run.examples}
            run.updates.own(owned_heads(maps, "top", variant["alpha"], seed), run.updates.moments())
            log.info("heads scored again before step %d", number + 1)
        return []


RESTRICTION = Rescored
