"""Training with gates on heads: heads that stay closed, that close in steps, and gates that learn.

A mixture has one set of gates for all tasks, or one per task, used only for its own batches.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch

from headspec.head_arrays import as_array, existing
from headspec.heads.importance import gate_gradients
from headspec.heads.ranking import joint_importance, top_heads
from headspec.progress import log
from headspec.seeds import derive
from headspec.statistics.budgets import missed
from headspec.tables import FLAG, FLOAT, INT, TEXT, Schema
from headspec.training.learnt_gates import FinalGates, LearntGates
from headspec.training.loop import Gating, Trainer

GATES_OF_RUN = Schema(
    {"task": TEXT, "step": INT, "layer": INT, "head": INT, "score": FLOAT, "open_probability": FLOAT,
     "gate": FLOAT, "kept": FLAG},
    keys=4,
    paths=("{run}/gates/{pruning_method}/{scope}/{kept}/gates.parquet",),
    about={
        "score": "what is learnt; the largest are kept first; null where no gates learn",
    },
)  # fmt: skip
#: number of times that gates are recorded while they learn
RECORDS = 20


class Sets:
    """Sets of gates: one for each of `tasks`, or one for all.

    `names` has the task of each set, or is [None] for a common set.
    """

    def __init__(self, tasks: Sequence[str], per_task: bool) -> None:
        self.all, self.per_task = list(tasks), per_task
        self.names: list[str | None] = list(tasks) if per_task else [None]

    def index(self, task: str) -> int:
        """Return the index of the set that applies to batches of `task`."""
        return self.all.index(task) if self.per_task else 0

    @property
    def members(self) -> list[list[str]]:
        """The tasks of each set."""
        return [[task] for task in self.all] if self.per_task else [self.all]


class Fixed(Gating):
    """Heads that stay open or closed; `kept` is bool (sets, layers, heads), True for open heads."""

    def __init__(self, sets: Sets, kept: np.ndarray) -> None:
        self.sets, self.kept = sets, kept

    def begin(self, run: Trainer, number: int) -> list[torch.Tensor]:
        close(run, self.kept[self.sets.index(run.steps[number].task)])
        return []

    def frame(self, step: int, exists: np.ndarray) -> pd.DataFrame:
        """Return the table `gates_of_run`, here only of the final step, with the heads that exist."""
        final = [FinalGates(kept, kept.astype(float), None) for kept in self.kept]
        return recorded(self.sets, step, final, exists)

    def state_dict(self) -> dict[str, Any]:
        return {"kept": torch.from_numpy(self.kept)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.kept = state["kept"].numpy()


class Stepwise(Fixed):
    """Heads that close in steps, the least important first (Michel et al. 2019), with training between steps.

    The same number, up to rounding, closes before each of the training `steps` until a set keeps `count`;
    layers in `fixed`, bool (layers,), keep all heads. Importance is recomputed each time, on at most
    `samples` training examples per task.
    """

    def __init__(
        self,
        sets: Sets,
        exists: np.ndarray,
        count: int,
        steps: Sequence[int],
        samples: int,
        seed: int,
        fixed: np.ndarray | bool = False,
    ) -> None:
        super().__init__(sets, np.stack([exists] * len(sets.names)))
        total, self.samples, self.seed, self.fixed = int(exists.sum()), samples, seed, fixed
        closed = [round((total - count) * (i + 1) / len(steps)) for i in range(len(steps))]
        self.counts = {step: total - n for step, n in zip(steps, closed, strict=True)}

    def begin(self, run: Trainer, number: int) -> list[torch.Tensor]:
        count = self.counts.get(number)
        if count is not None:
            self.kept = np.stack([self._most_important(run, i, count) for i in range(len(self.kept))])
        return super().begin(run, number)

    def _most_important(self, run: Trainer, index: int, count: int) -> np.ndarray:
        """Return the `count` most important heads among a set's open heads, bool (layers, heads)."""
        maps = []
        for task in self.sets.members[index]:
            rng = np.random.default_rng(derive(self.seed, "importance samples", task))
            rows = rng.permutation(len(run.examples[task]))[: self.samples]
            gradients = gate_gradients(
                run.model, task, run.examples[task], rows, run.device, closed=~self.kept[index]
            )
            maps.append(np.abs(gradients).mean(axis=0, dtype=float))  # (layers, heads)
        scores = np.where(self.kept[index], joint_importance(maps), np.nan)
        return top_heads(fixed_first(scores, self.fixed), count)


class Learning(Gating):
    """Gates that learn during the first `steps`; then kept heads are open and the others closed.

    `gates` are those of each set, `count` the number of heads that a set keeps (None: all open), `rate`
    the learning rate of the gates' own optimizers. Noise depends only on the seed and the step number.
    """

    def __init__(
        self, sets: Sets, gates: Sequence[LearntGates], steps: int, count: int | None, rate: float, seed: int
    ) -> None:
        self.sets, self.gates, self.steps, self.count, self.seed = sets, gates, steps, count, seed
        self.optimizers = [torch.optim.Adam([each.scores], lr=rate) for each in gates]
        self.course: list[tuple[int, list[torch.Tensor]]] = []
        self.drawn: tuple[int, torch.Tensor, torch.Tensor, torch.Tensor] | None = None

    def begin(self, run: Trainer, number: int) -> list[torch.Tensor]:
        index = self.sets.index(run.steps[number].task)
        if number >= self.steps:
            close(run, self.kept[index])
            return []
        if number % max(1, self.steps // RECORDS) == 0:
            self.course.append((number, self._scores()))
        gates, progress = self.gates[index], number / self.steps
        rng = torch.Generator().manual_seed(derive(self.seed, "noise of gates", number))
        least = torch.finfo(torch.float32).eps
        uniform = torch.rand(gates.scores.shape, generator=rng).clamp(least, 1 - least)
        drawn = gates.draw(progress, uniform)  # (layers, heads)
        leaf = drawn.detach().to(run.device.name).requires_grad_()
        self.drawn = index, drawn, leaf, gates.cost(progress)
        run.model.gates.values = leaf.to(getattr(torch, run.device.autocast or "float32"))
        return [leaf]

    def end(self) -> None:
        """Update the gates by the gradient that the batch left in those returned by `begin`."""
        if self.drawn is None:
            return
        index, drawn, leaf, cost = self.drawn
        self.drawn = None
        assert leaf.grad is not None
        ((drawn * leaf.grad.to(drawn.device)).sum() + cost).backward()
        torch.nn.utils.clip_grad_norm_([self.gates[index].scores], 1.0)
        self.optimizers[index].step()
        self.optimizers[index].zero_grad()

    @property
    def kept(self) -> np.ndarray:
        """Return the heads that are kept, bool (sets, layers, heads)."""
        return np.stack([final.kept for final in self._final(self._scores())])

    def _scores(self) -> list[torch.Tensor]:
        """Return the scores of each set, (layers, heads), or (free,) if some are fixed or do not exist."""
        return [gates.scores.detach().clone() for gates in self.gates]

    def _final(self, scores: list[torch.Tensor]) -> list[FinalGates]:
        """Return the final gates of each set for these scores."""
        return [
            gates.final(set_scores.double().numpy(), self.count)
            for gates, set_scores in zip(self.gates, scores, strict=True)
        ]

    def warn(self) -> None:
        """Warn if gates have missed their target number of heads or, with none, left all or no heads open."""
        for name, gates, final in zip(self.sets.names, self.gates, self._final(self._scores()), strict=True):
            heads, whose = gates.scores.numel(), f" for task '{name}'" if name else ""
            assert final.scores is not None
            n = int(final.kept[existing(final.scores)].sum())  # without fixed heads
            if self.count is None and n in (0, heads):
                smaller = "smaller" if n == 0 else "larger"
                log.warning("%d of %d heads are open%s; use a %s gates.penalty", n, heads, whose, smaller)
            elif gates.target is not None and final.probability is not None:
                expected = np.nansum(final.probability)
                if missed(float(expected), gates.target, heads):
                    log.warning(
                        "%.1f heads are expected to be open%s, but the target is %d: the heads with the "
                        "largest scores are kept; increase gates.epochs or gates.learning_rate",
                        *(expected, whose, gates.target),
                    )

    def frame(self, step: int, exists: np.ndarray) -> pd.DataFrame:
        """Return the table `gates_of_run`: the course of learning and the final step, with existing heads."""
        course = [*self.course, (step, self._scores())]
        return pd.concat(recorded(self.sets, at, self._final(scores), exists) for at, scores in course)

    def state_dict(self) -> dict[str, Any]:
        return {
            "gates": [gates.state_dict() for gates in self.gates],
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "course": self.course,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for gates, saved in zip(self.gates, state["gates"], strict=True):
            gates.load_state_dict(saved)
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.course = list(state["course"])


def fixed_first(scores: np.ndarray, fixed: np.ndarray | bool) -> np.ndarray:
    """Return scores (layers, heads) that rank all heads of the layers in `fixed`, bool (layers,), first."""
    return np.where(np.reshape(fixed, (-1, 1)) & existing(scores), np.inf, scores)


def close(run: Trainer, kept: np.ndarray) -> None:
    """Close the heads of the model that are not `kept`, bool (layers, heads)."""
    run.model.gates.values = torch.from_numpy(kept).float().to(run.device.name)


def recorded(sets: Sets, step: int, final: list[FinalGates], exists: np.ndarray) -> pd.DataFrame:
    """Return the rows of the table `gates_of_run` after a step; `exists` is bool (layers, heads)."""
    frames = []
    for task, gates in zip(sets.names, final, strict=True):
        layer, head = np.nonzero(exists)
        score, probability = (
            np.nan if values is None else values[exists] for values in (gates.scores, gates.probability)
        )
        frame = pd.DataFrame({"task": task, "step": step, "layer": layer, "head": head, "score": score})
        frames.append(
            frame.assign(open_probability=probability, gate=gates.gate[exists], kept=gates.kept[exists])
        )
    return pd.concat(frames, ignore_index=True)


def last_kept(gates: pd.DataFrame, sets: Sets) -> np.ndarray:
    """Return the heads that are finally kept in a table `gates_of_run`, bool (sets, layers, heads)."""
    last = gates[gates["step"] == gates["step"].max()]
    per_set = [last if name is None else last[last["task"] == name] for name in sets.names]
    return np.stack([as_array(rows.set_index(["layer", "head"])["kept"]) == 1 for rows in per_set])
