"""Exact match and F1 of predicted answers, counted by `headspec.tasks.kinds.answer.agreement`.

The prediction has the largest F1 and exact match over gold answers, the label the scores of predicting no
answer: 1 where there is none, or nothing of it counts, else 0.
"""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from headspec.tasks.metrics import Metric
from headspec.tasks.sums import mean, taken

Floats = NDArray[np.float64]


def _none(label: Floats) -> Floats:
    """Predict no answer to any question, since no other text answers many."""
    return np.repeat(label, 2, axis=-1)


METRICS = {
    "answer_f1": Metric("F1 of answers", partial(taken, 0), mean, _none, several=True),
    "answer_exact_match": Metric("exact match of answers", partial(taken, 1), mean, _none, several=True),
}
