"""Metrics of the log-likelihood of the right continuation minus the wrong one's; chance is 0."""

import numpy as np
from numpy.typing import NDArray

from headspec.tasks.metrics import Metric
from headspec.tasks.sums import columns, each, mean

Floats = NDArray[np.float64]


def _preferred(label: Floats, differences: Floats) -> tuple[Floats, Floats]:
    """Count twice: 2 if the right one is likelier, and 1 for ties."""
    return 2 * np.ones((len(label), 1)), columns(np.sign(differences) + 1)


def _differences(label: Floats, differences: Floats) -> tuple[NDArray, Floats]:
    return each(label), columns(differences)


METRICS = {
    "pair_accuracy": Metric("pairs right", _preferred, mean, np.zeros_like),
    "logit_difference": Metric("logit difference", _differences, mean, np.zeros_like),
}
