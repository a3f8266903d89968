"""Shares of pairs whose right text is likelier, and differences of log-likelihoods."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headspec.tasks.metrics import Metric, each, mean
from headspec.tasks.metrics import columns as summands

Floats = NDArray[np.float64]


def _preferred(label: Floats, differences: Floats) -> tuple[Floats, Floats]:
    """Return summands: 2 for each pair, and 2 if its right text is likelier, 1 for ties, else 0."""
    return 2 * np.ones((len(label), 1)), summands(np.sign(differences) + 1)


def _differences(label: Floats, differences: Floats) -> tuple[NDArray[Any], Floats]:
    """Return summands of labels, (n, 1), and of differences (..., n), (..., n, columns)."""
    return each(label), summands(differences)


METRICS = {
    "pair_accuracy": Metric("pairs right", _preferred, mean, np.zeros_like, worst=np.zeros_like),
    "logit_difference": Metric("logit difference", _differences, mean, np.zeros_like, worst=np.zeros_like),
}
