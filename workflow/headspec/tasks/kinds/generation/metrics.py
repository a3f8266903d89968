"""Scores of written answers, in predictions; those of the best constant answer, in labels."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from headspec.tasks.metrics import Metric, mean, taken

Floats = NDArray[np.float64]

#: names in figures, by score, of which the fifth is the user's own; the variance is of the main one
LABELS = {
    "exact_match": "exact match",
    "f1": "F1 of words",
    "contains": "answers contained",
    "number": "numbers right",
    "score": "own score",
    "variance": "variance of samples",
}


def _constant(label: Floats) -> Floats:
    return label


METRICS = {
    f"generated_{name}": Metric(label, partial(taken, place), mean, _constant, several=True)
    for place, (name, label) in enumerate(LABELS.items())
}
