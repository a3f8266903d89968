"""Counts of a sentence's units in one number, and the metrics that follow from them.

A prediction for a sentence is what was counted: `first` + 4096 * `second`. `first` is the number of units
that are right; `second` the number that were predicted or, of dependencies, of words with the right head.
The label is the number of units + 4096 * the counts of the best prediction that does not read the sentence.
So metrics of words take one label and one prediction for each example, as all others do.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

#: one more than the largest count of a sentence
BASE = 4096


class Ratio(NamedTuple):
    """A metric that is a ratio of sums of counts.

    Attributes
    ----------
    kind : share of the units that are right, or F1
    place : of the count of a prediction that is right
    label : its name in figures
    """

    kind: Literal["share", "f1"]
    place: int
    label: str


RATIOS = {
    "word_accuracy": Ratio("share", 0, "accuracy of words"),
    "span_f1": Ratio("f1", 0, "F1 of spans"),
    "las": Ratio("share", 0, "LAS"),
    "uas": Ratio("share", 1, "UAS"),
    "bracket_f1": Ratio("f1", 0, "F1 of brackets"),
    "role_f1": Ratio("f1", 0, "F1 of roles"),
}


def packed(*counts: int) -> float:
    """Counts below `BASE` as one number; two of them are exact in float32, four in float64."""
    if max(counts) >= BASE:
        raise ValueError(f"{max(counts)} units in a sentence; expected fewer than {BASE}")
    return float(sum(count * BASE**place for place, count in enumerate(counts)))


def counts(values: ArrayLike, place: int) -> Floats:
    """The counts at a place of packed `values`."""
    return np.asarray(values, dtype=float) // BASE**place % BASE


def blind(label: ArrayLike) -> Floats:
    """The predictions of the best prediction without reading, from labels."""
    return np.asarray(label, dtype=float) // BASE


def preferred(differences: ArrayLike) -> Floats:
    """What counts as right of pairs, by the difference of log-likelihoods: 1, or 1/2 where it is 0."""
    return (np.sign(np.asarray(differences, dtype=float)) + 1) / 2


def summed(metric: str, label: Floats, prediction: Floats) -> tuple[Floats, Floats]:
    """What is summed over examples: the metric is the sum of the first by the sum of the second.

    Parameters
    ----------
    label : (n,)
    prediction : (..., n)
    """
    kind, place, _ = RATIOS[metric]
    right, gold = counts(prediction, place), counts(label, 0)
    if kind == "share":
        return right, np.broadcast_to(gold, right.shape)
    return 2 * right, gold + counts(prediction, 1)
