"""A metric of a model of one's own, without sets of heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headspec.errors import NumericalError
from headspec.heads.any_model.batches import LABELS, Inputs, count
from headspec.heads.any_model.losses import Loss
from headspec.models.gates import HeadGates
from headspec.tasks.metrics import metric as known
from headspec.tasks.metrics import resampled_scores

Floats = NDArray[np.float64]
#: the name of a metric, or what returns each example's value, (batch,), of outputs and batch
Measure = str | Loss
#: what a mean over examples is called
LOSS = "loss"


class Evaluation:
    """Values or predictions of n examples, for one set of closed heads after another.

    Parameters
    ----------
    measure : a metric's name, or a function as in `Measure`

    Attributes
    ----------
    name : of the metric
    n : number of examples
    """

    def __init__(self, gates: HeadGates, batches: Sequence[Inputs], measure: Measure) -> None:
        self.gates, self.batches = gates, batches
        self.metric = known(measure) if isinstance(measure, str) else None
        self.measure: Loss = _predicted if isinstance(measure, str) else measure
        own = getattr(measure, "__name__", LOSS)
        self.name = self.metric.name if self.metric else LOSS if own == "<lambda>" else own
        self.n = sum(count(batch, gates.model.main_input_name) for batch in batches)
        self._found: list[Floats] = []

    def add(self, closed: NDArray[np.bool_]) -> None:
        """Evaluate without heads, bool (layers, heads)."""
        found = []
        with self.gates.closed(closed):
            for batch in self.batches:
                values = self.measure(self.gates.model(**batch), batch)
                n = count(batch, self.gates.model.main_input_name)
                if not isinstance(values, torch.Tensor) or values.shape[:1] != (n,):
                    got = tuple(values.shape) if isinstance(values, torch.Tensor) else type(values).__name__
                    raise ValueError(f"metric: returned {got}, expected ({n},), a value for each example")
                found.append(values.double().cpu().numpy())
        self._found.append(np.concatenate(found))

    def scores(self, weights: NDArray[np.integer]) -> Floats:
        """Return scores (resamples, sets) of samples with each example as often as `weights`, (.., n)."""
        found = np.stack(self._found)
        if not np.isfinite(found).all():
            raise NumericalError(f"{self.name}: nan or infinite with heads closed")
        if self.metric:
            labels = [torch.as_tensor(batch[LABELS]).double().cpu().numpy() for batch in self.batches]
            return resampled_scores(self.metric, np.concatenate(labels), found, weights)
        return weights @ found.T / weights.sum(axis=1, keepdims=True)


def _predicted(outputs: Any, batch: Inputs) -> torch.Tensor:
    """Return the class, score or labels with the largest logits, (batch,) or (batch, labels)."""
    logits, labels = getattr(outputs, "logits", None), batch.get(LABELS)
    if not isinstance(logits, torch.Tensor) or not isinstance(labels, torch.Tensor):
        raise ValueError("metric: got a name for a model or batches without logits or labels")
    if labels.is_floating_point() and labels.shape == logits.shape and labels.dim() == 2:
        return (logits > 0).long()
    if logits.dim() == 2 and labels.dim() == 1:
        return logits[:, 0] if logits.shape[1] == 1 else logits.argmax(1)
    raise ValueError(
        f"metric: got a name for logits {tuple(logits.shape)} and labels {tuple(labels.shape)}; expected a "
        "function of outputs and batch that returns each example's value, (batch,)"
    )
