"""Unlabelled texts, whose own tokens are predicted, and metrics from numbers that add up over texts.

Predictions hold the number of tokens predicted right, and the surprisal of all in bits. Labels hold the
numbers of predicted tokens and of their bytes, and both prediction numbers for the best constant prediction:
the most frequent token, and each token by its frequency.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headspec.tasks.kinds.texts.data import Texts
from headspec.tasks.metrics import Metric, mean

if TYPE_CHECKING:
    import pandas as pd

    from headspec.config.sections.task import Task

Floats = NDArray[np.float64]


class Unlabelled(Texts):
    """Texts, each with an empty label."""

    def columns(self, task: Task) -> list[str]:
        return []

    def rows(self, frame: pd.DataFrame, task: Task, key: str, where: str) -> pd.DataFrame:
        return self.texts(frame, task, key, where).assign(label="")


DATA = Unlabelled()

#: positions of the numbers in a label, and in a prediction
TOKENS, BYTES, BLIND = 0, 1, slice(2, 4)
RIGHT, BITS = 0, 1


def _sums(place: int, by: int, label: Floats, predictions: Floats) -> tuple[Floats, Floats]:
    return label[..., [by]], predictions[..., [place]]


def _constant(label: Floats) -> Floats:
    return label[..., BLIND]


METRICS = {
    "token_accuracy": Metric("accuracy of tokens", partial(_sums, RIGHT, TOKENS), mean, _constant, True),
    "bits_per_token": Metric("bits per token", partial(_sums, BITS, TOKENS), mean, _constant, True),
    "bits_per_byte": Metric("bits per byte", partial(_sums, BITS, BYTES), mean, _constant, True),
}
