"""Shares and F1 of right units."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headspec.tasks import metrics
from headspec.tasks.metrics import Metric

Floats = NDArray[np.float64]


def _blind(label: Floats) -> Floats:
    return label[:, 1:]


def share(name: str, place: int = 0) -> Metric:
    """Return the metric of the share of right units, whose number is at a place of the prediction."""

    def summed(label: Floats, predictions: Floats) -> tuple[Floats, Floats]:
        return label[:, :1], predictions[..., [place]]

    return Metric(name, summed, metrics.mean, _blind, several=True)


def f1(name: str) -> Metric:
    """Return the metric F1 of units; a prediction has the numbers of right and predicted units."""

    def summed(label: Floats, predictions: Floats) -> tuple[Floats, Floats]:
        return label[:, :1], predictions

    return Metric(name, summed, metrics.f1, _blind, several=True)


TAGS_METRICS = {"word_accuracy": share("accuracy of words")}
SPANS_METRICS = {"span_f1": f1("F1 of spans")}
CONSTITUENTS_METRICS = {"bracket_f1": f1("F1 of brackets")}
ROLES_METRICS = {"role_f1": f1("F1 of roles")}
DEPENDENCIES_METRICS = {"las": share("LAS"), "uas": share("UAS", 1)}
