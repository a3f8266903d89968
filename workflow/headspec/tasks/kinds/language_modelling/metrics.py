"""Accuracy of predicted tokens, and bits per token and byte."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from headspec.tasks.metrics import Metric, mean

Floats = NDArray[np.float64]

#: places of the numbers in a label, and in a prediction
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
