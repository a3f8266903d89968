"""Losses of single examples, identified from the mean loss that a model returns, and metrics of a model."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from headspec.errors import ModelError, NumericalError, listing
from headspec.heads.any_model.batches import IGNORED, LABELS, Inputs, count, rows
from headspec.heads.any_model.generated import Writing
from headspec.heads.any_model.halving import Halving, halves, some
from headspec.models.attention.past import fresh
from headspec.models.devices import MEMORY_ERRORS
from headspec.tasks.metrics import metric as registered
from headspec.tasks.metrics import resampled_scores, scores

if TYPE_CHECKING:
    from transformers import PreTrainedModel


#: takes the outputs of a model and its batch, and returns the loss of each example, (batch,)
Loss = Callable[[Any, Inputs], torch.Tensor]
#: takes logits and labels, and returns the loss of each example, (batch,); None if their shapes do not fit
Example = Callable[[torch.Tensor, torch.Tensor], torch.Tensor | None]
#: relative difference allowed from the model's own loss, in float32 and in other precisions
EXACT, COARSE = 1e-4, 3e-2
#: examples on which losses are compared: in half precision, two losses may agree on one example
COMPARED = 4


def cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor | None:
    """Return the cross-entropy of classes, or its mean over an example's labelled tokens, (n,).

    Logits are (n, [tokens,] classes), labels (n, [tokens]) or (n, [tokens,] 1); None for other shapes.
    """
    if labels.is_floating_point() or logits.shape[-1] == 1:
        return None
    if labels.dim() == logits.dim() and labels.shape[-1] == 1:
        labels = labels[..., 0]
    if labels.shape != logits.shape[:-1]:
        return None
    tokens = F.cross_entropy(
        logits.float().flatten(0, -2), labels.long().flatten(), reduction="none", ignore_index=IGNORED
    )
    # (n, tokens), or (n, 1) for one label
    real = (labels != IGNORED).flatten(1) if labels.dim() > 1 else labels[:, None] != IGNORED
    return tokens.view(real.shape).sum(1) / real.sum(1).clamp(min=1)


def next_tokens(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor | None:
    """Return the mean cross-entropy of an example's tokens, each predicted by the logits before it, (n,).

    Logits are (n, tokens, vocabulary), labels (n, tokens); None for other shapes.
    """
    return cross_entropy(logits[:, :-1], labels[:, 1:]) if labels.dim() == 2 == logits.dim() - 1 else None


def squared_error(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor | None:
    """Return the mean squared error over an example's scores, (n,).

    Logits and labels are (n, [scores]); None if they differ in size.
    """
    if labels.numel() != logits.numel():
        return None
    return (logits.float().view(len(labels), -1) - labels.float().view(len(labels), -1)).square().mean(1)


def binary_cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor | None:
    """Return the mean binary cross-entropy of an example's labels, each 0 or 1, (n,).

    Logits and labels are (n, labels); None if they differ in shape.
    """
    if labels.shape != logits.shape:
        return None
    each = F.binary_cross_entropy_with_logits(logits.float(), labels.float(), reduction="none")
    return each.flatten(1).mean(1)


LOSSES: tuple[Example, ...] = cross_entropy, next_tokens, squared_error, binary_cross_entropy


def own_loss(model: PreTrainedModel, batch: Inputs) -> Loss:
    """Return the function of `LOSSES` whose mean over a labelled `batch` is the loss that the model returns.

    It is identified by a pass over a few examples or, where that leaves doubt (as in half precision) or runs
    out of memory, by a pass for each of them. Raises ModelError if the model returns no loss, or another.
    """
    name = type(model).__name__
    if not isinstance(batch.get(LABELS), torch.Tensor):
        raise ModelError(f"loss: missing; a batch has {listing(batch)}, expected labels in it, or `loss`")
    main = model.main_input_name
    try:
        off, exact = _differences(model, rows(batch, slice(COMPARED), main))
    except MEMORY_ERRORS as error:
        if not halves(model, error):
            raise
        off, exact = {}, False
    if exact and off and sum(other <= EXACT for other in off.values()) == 1:
        return functools.partial(_from_outputs, min(off, key=off.__getitem__))
    most = dict.fromkeys(LOSSES, 0.0)
    within, compared = EXACT, 0
    for row in range(count(batch, main)):
        off, exact = _differences(model, rows(batch, slice(row, row + 1), main))
        if not off:
            continue  # for example a text whose tokens are all ignored
        within = within if exact else COARSE
        most = {loss: max(most[loss], other) for loss, other in off.items()}
        compared += 1
        if compared == COMPARED:
            break
    best = min(LOSSES, key=most.__getitem__)
    if compared and most[best] <= within:
        return functools.partial(_from_outputs, best)
    raise ModelError(
        f"loss: missing; the loss of {name} is not a cross-entropy or squared error of its logits, "
        "expected `loss`"
    )


@torch.no_grad()
def _differences(model: PreTrainedModel, batch: Inputs) -> tuple[dict[Example, float], bool]:
    """Return the relative difference of each of `LOSSES` from the model's loss, and whether it is float32.

    The dict is empty if the model's loss is not finite. Raises ModelError if there is none. With several
    labels per example, losses are compared as means over all labels, as models return them.
    """
    outputs = model(**fresh(batch))
    own = getattr(outputs, "loss", None)
    if own is None:
        raise ModelError(f"loss: missing; {type(model).__name__} gives none for labels, expected `loss`")
    exact = bool(own.dtype == outputs.logits.dtype == torch.float32)
    if not own.isfinite():
        return {}, exact
    labels = batch[LABELS].to(outputs.logits.device)
    off: dict[Example, float] = {}
    for loss in LOSSES:
        by_example = loss(outputs.logits, labels)
        if by_example is None:
            off[loss] = float("inf")
            continue
        counted = labels[:, 1:] if loss is next_tokens else labels
        weights = (counted != IGNORED).flatten(1).sum(1) if labels.dim() > 1 else labels != IGNORED
        off[loss] = float(((by_example * weights).sum() / weights.sum().clamp(min=1) / own.float() - 1).abs())
    return off, exact


def _from_outputs(loss: Example, outputs: Any, batch: Inputs) -> torch.Tensor:
    """Return the loss of each example, (batch,), from the logits in `outputs`."""
    by_example = loss(outputs.logits, batch[LABELS].to(outputs.logits.device))
    assert by_example is not None
    return by_example


Floats = NDArray[np.float64]
#: the name of a metric, a function of outputs and batch that returns each example's value, (batch,), or what
#: writes texts and scores them
Measure = str | Loss | Writing
#: name of the default metric, the mean loss
LOSS = "loss"
#: maximum number of groups that a jackknife leaves out, one at a time
GROUPS = 1000


class Evaluation:
    """Values or predictions of n examples, for several sets of closed heads.

    Parameters
    ----------
    sets : number of sets, one after another for each batch
    measure : as in `Measure`

    Attributes
    ----------
    name : of the metric
    n : number of examples
    """

    def __init__(
        self, model: PreTrainedModel, batches: Sequence[Inputs], sets: int, measure: Measure
    ) -> None:
        self.model, self.batches, self.sets = model, batches, sets
        self.metric = registered(measure) if isinstance(measure, str) else None
        self.writing = measure if isinstance(measure, Writing) else None
        self.measure = measure if callable(measure) else _predicted
        own = self.writing.metric.name if self.writing else getattr(measure, "__name__", LOSS)
        self.name = self.metric.name if self.metric else LOSS if own == "<lambda>" else own
        self.n = sum(count(batch, model.main_input_name) for batch in batches)
        self._found: list[Floats] = []
        self._halving = Halving(model)

    def add(self, batch: Inputs, closing: Callable[[slice], AbstractContextManager[Any]]) -> None:
        """Evaluate a batch, in parts that fit in memory, in blocks that close its next set of heads."""
        main = self.model.main_input_name

        def of(part: slice) -> Floats:
            given = some(batch, part, main)
            with closing(part):
                if self.writing:
                    values = self.writing.values(len(self._found) // self.sets, part)
                else:
                    values = self.measure(self.model(**fresh(given)), given)
            n = part.stop - part.start
            if not isinstance(values, torch.Tensor) or values.shape[:1] != (n,):
                got = tuple(values.shape) if isinstance(values, torch.Tensor) else type(values).__name__
                raise ValueError(f"metric: returned {got}, expected ({n},), a value for each example")
            found: Floats = values.double().cpu().numpy()
            return found

        self._found.append(np.concatenate([*self._halving.over(count(batch, main), of)]))

    @property
    def values(self) -> Floats:
        """Values of examples, (sets, n), whose mean is the metric.

        For a metric that is not a mean over examples, they are jackknife pseudovalues, shifted to that mean;
        with many examples, those of groups, (sets, groups).
        """
        by_set = np.stack([np.concatenate(self._found[i :: self.sets]) for i in range(self.sets)])
        if not np.isfinite(by_set).all():
            raise NumericalError(f"{self.name}: nan or infinite with heads closed")
        if not self.metric:
            return by_set
        groups = min(self.n, GROUPS)
        used = np.arange(self.n) % groups != np.arange(-1, groups)[:, None]  # first, all examples
        whole, *without = resampled_scores(self.metric, self._labels, by_set, used)
        apart: Floats = (1 - groups) * np.transpose(without)
        moved: Floats = apart - apart.mean(axis=1, keepdims=True) + whole[:, None]
        return moved

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Lowest and highest value of the metric; None if it has no known bounds.

        A metric that is 1 for perfect predictions has 1 as its upper bound, and -1 as its lower bound if it
        can be negative, like a correlation, else 0. Means of zeros and ones are between 0 and 1.
        """
        if self.writing and self.writing.bounds:
            return self.writing.bounds
        if not self.metric:
            return (0.0, 1.0) if all(np.isin(found, (0, 1)).all() for found in self._found) else None
        known, place = np.unique(labels := self._labels, return_inverse=True)
        place = place.reshape(labels.shape)
        all_wrong, reverse = known[(place + 1) % len(known)], known[len(known) - 1 - place]
        best, *worst = scores(self.metric, labels, [labels, all_wrong, reverse])
        return (-1.0 if min(worst) < 0 else 0.0, 1.0) if np.isclose(best, 1) else None

    @property
    def _labels(self) -> Floats:
        return np.concatenate([
            torch.as_tensor(batch[LABELS]).double().cpu().numpy() for batch in self.batches
        ])  # fmt: skip


def _predicted(outputs: Any, batch: Inputs) -> torch.Tensor:
    """Return predicted classes or scores, (batch,), or labels, (batch, labels).

    Raises ValueError if logits or labels are missing, or their shapes do not fit together.
    """
    logits, labels = getattr(outputs, "logits", None), batch.get(LABELS)
    if not isinstance(logits, torch.Tensor) or not isinstance(labels, torch.Tensor):
        raise ValueError("metric: got a name, which needs logits of the model and labels in batches")
    if labels.is_floating_point() and labels.shape == logits.shape and labels.dim() == 2:
        return (logits > 0).long()
    if logits.dim() == 2 and labels.dim() == 1:
        return logits[:, 0] if logits.shape[1] == 1 else logits.argmax(1)
    raise ValueError(
        f"metric: got a name for logits {tuple(logits.shape)} and labels {tuple(labels.shape)}; expected a "
        "function of outputs and batch that returns each example's value, (batch,)"
    )
