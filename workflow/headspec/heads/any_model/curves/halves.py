"""Random split of examples into two halves, stratified by class, with duplicates in the same half."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from headspec.heads.any_model.batches import LABELS, Inputs, count, rows
from headspec.models.attention.past import BY_EXAMPLE, is_past, tensors
from headspec.progress import log

#: fewest distinct examples: two in each half
FEWEST = 4
#: what each half does
USES = ("ranks heads", "evaluates")


def halves(batches: Sequence[Inputs], main: str, rng: np.random.Generator) -> list[list[Inputs]]:
    """Return the examples that rank heads and those that evaluate, keeping the original batches.

    Raises as `assigned`.
    """
    return divided(batches, main, assigned(batches, main, rng))


def assigned(batches: Sequence[Inputs], main: str, rng: np.random.Generator) -> NDArray[np.int_]:
    """Return the half of each example, (n,): 0 ranks heads, 1 evaluates.

    Examples that differ only in labels or padding are in the same half. Warnings name the classes that a
    half lacks, and count repeated examples. `main` is the model's main input. Raises ValueError if fewer
    than four examples are distinct.
    """
    keys = [key for batch in batches for key in _contents(batch, main)]
    classes = [label for batch in batches for label in _classes(batch, main)]
    groups: dict[Hashable, list[int]] = {}
    for example, key in enumerate(keys):
        groups.setdefault(key, []).append(example)
    if len(groups) < FEWEST:
        different = f", {len(groups)} of them different" if len(groups) < len(keys) else ""
        raise ValueError(f"batches: got {len(keys)} examples{different}; expected at least {FEWEST}")
    half = _drawn([*groups.values()], classes, rng)
    _warn(half, classes, len(keys) - len(groups))
    return half


def divided(batches: Sequence[Inputs], main: str, half: NDArray[np.int_]) -> list[list[Inputs]]:
    """Return the examples of each `half`, 0 or 1 (n,), in order, in their batches."""
    starts = np.cumsum([0, *(count(batch, main) for batch in batches)])
    parts: list[list[Inputs]] = [[], []]
    for batch, start, stop in zip(batches, starts, starts[1:], strict=False):
        for number, part in enumerate(parts):
            chosen = np.flatnonzero(half[start:stop] == number)
            if len(chosen):
                part.append(rows(batch, torch.from_numpy(chosen), main))
    return parts


def _contents(batch: Inputs, main: str) -> list[Hashable]:
    """Return the inputs of each example without padding, for comparison."""
    n, mask = count(batch, main), batch.get("attention_mask")
    inputs = {
        name: value.cpu()
        for name, value in sorted(batch.items())
        if name != LABELS and isinstance(value, torch.Tensor) and value.dim() and len(value) == n
    }
    for name, value in batch.items():
        for i, states in enumerate(tensors(value) if is_past(value) else ()):
            if states.dim() >= BY_EXAMPLE and len(states) == n:
                inputs[f"{name} {i}"] = states.cpu()

    def content(name: str, row: int) -> Hashable:
        value = inputs[name][row]
        if isinstance(mask, torch.Tensor) and mask.shape == inputs[name].shape:
            value = value[inputs["attention_mask"][row].bool()]
        return name, tuple(value.shape), value.double().numpy().tobytes()

    return [tuple(content(name, row) for name in inputs) for row in range(n)]


def _classes(batch: Inputs, main: str) -> list[int | None]:
    """Return the class of each example; None where labels are scores, tokens or multi-label."""
    labels = batch.get(LABELS)
    if isinstance(labels, torch.Tensor) and not labels.is_floating_point() and labels.dim() == 1:
        return [int(label) for label in labels.tolist()]
    return [None] * count(batch, main)


def _drawn(
    groups: Sequence[list[int]], classes: Sequence[int | None], rng: np.random.Generator
) -> NDArray[np.int_]:
    """Return the half of each example, (n,), with each class split as evenly as the groups allow."""
    half, total = np.zeros(len(classes), dtype=int), np.zeros(2)
    by_class: dict[int | None, list[list[int]]] = {}
    for i in rng.permutation(len(groups)):
        by_class.setdefault(classes[groups[i][0]], []).append(groups[i])
    for own in by_class.values():
        counts = np.zeros(2)
        for group in sorted(own, key=len, reverse=True):  # largest first balances best
            chosen = min((0, 1), key=lambda number: (counts[number], total[number], rng.random()))
            half[group] = chosen
            counts[chosen] += len(group)
            total[chosen] += len(group)
    return half


def _warn(half: np.ndarray, classes: Sequence[int | None], repeated: int) -> None:
    """Warn about classes missing from a half, and about repeated examples."""
    if repeated:
        log.warning(
            "%d of %d examples are duplicates; they stay in one half, but intervals treat all "
            "examples as independent", repeated, len(half),
        )  # fmt: skip
    for label in sorted({label for label in classes if label is not None}):
        of_class = np.array([own == label for own in classes])
        for number, use in enumerate(USES):
            if not (of_class & (half == number)).any():
                log.warning(
                    "the half of the examples that %s has none of the %d of class %d",
                    use, of_class.sum(), label,
                )  # fmt: skip
