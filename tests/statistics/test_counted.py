"""Metrics by counts, compared bit for bit with the same metrics one by one."""

import numpy as np
import pytest

from headspec.statistics import counted
from headspec.statistics.metrics import score
from headspec.statistics.unit_counts import BASE, RATIOS, packed


def drawn(rng, metric, shape, largest):
    """Labels (n,) and predictions (sets, n, ...): classes below `largest`, or counts of units."""
    n = shape[1]
    if metric == "pair_accuracy":
        return np.zeros(n), rng.integers(-1, 2, size=shape).astype(float)
    if metric not in RATIOS:
        return rng.integers(largest, size=n).astype(float), rng.integers(largest, size=shape).astype(float)
    units = rng.integers(1, 30, size=n)
    right = rng.integers(units.reshape(-1, *[1] * (len(shape) - 2)) + 1, size=shape)
    second = right + rng.integers(0, 30, size=shape) if RATIOS[metric][0] == "f1" else right
    if RATIOS[metric] == ("share", 1):
        right = rng.integers(right + 1)
    blind = rng.integers(units + 1)
    label = [packed(*of_sentence) for of_sentence in zip(units, blind, blind, strict=True)]
    predictions = [packed(*of_sentence) for of_sentence in zip(right.flat, second.flat, strict=True)]
    return np.array(label), np.array(predictions).reshape(shape)


@pytest.mark.parametrize("metric", counted.METRICS)
def test_weighted_scores_are_those_one_by_one(metric, monkeypatch):
    monkeypatch.setattr(counted, "CHUNK", 100)  # several parts
    rng = np.random.default_rng(0)
    label, predictions = drawn(rng, metric, (5, 40), 3)
    all_right = label % BASE * (1 + BASE) if metric in RATIOS else label
    all_right = np.ones(40) if metric == "pair_accuracy" else all_right
    predictions[0], predictions[1] = 0, all_right  # 0: constant, and nothing right
    weights = rng.multinomial(40, np.full(40, 1 / 40), size=30)
    scores = counted.scores(metric, label, predictions, weights)
    expected = np.stack([score(metric, label, each, weights) for each in predictions], axis=-1)
    np.testing.assert_array_equal(scores, expected)
    np.testing.assert_allclose(scores[:, 1], 1)
    assert len(np.unique(scores[:, 2])) > 5


@pytest.mark.parametrize("metric", counted.METRICS)
@pytest.mark.parametrize("k", [2, 3, 4])
def test_shuffled_scores_are_those_of_the_shuffled_predictions(metric, k):
    rng = np.random.default_rng(k)
    label, predictions = drawn(rng, metric, (3, 30, k), 2)
    source = rng.permuted(np.broadcast_to(np.arange(k, dtype=np.uint8), (20, 30, k)), axis=-1)
    scores = counted.shuffled(metric, label, predictions, source)
    taken = np.take_along_axis(predictions[None], source[:, None].astype(int), axis=-1)  # (20, 3, 30, k)
    expected = [[[score(metric, label, slot) for slot in one.T] for one in sets] for sets in taken]
    np.testing.assert_array_equal(scores, expected)
