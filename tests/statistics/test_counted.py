"""Metrics by counts, compared bit for bit with the same metrics one by one."""

import numpy as np
import pytest

from headspec.statistics import counted
from headspec.statistics.metrics import score


@pytest.mark.parametrize("metric", counted.METRICS)
def test_weighted_scores_are_those_one_by_one(metric, monkeypatch):
    monkeypatch.setattr(counted, "CHUNK", 100)  # several parts
    rng = np.random.default_rng(0)
    label, predictions = rng.integers(3, size=40).astype(float), rng.integers(3, size=(5, 40)).astype(float)
    predictions[0], predictions[1] = 0, label  # constant, and all right
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
    label = rng.integers(2, size=30).astype(float)
    predictions = rng.integers(2, size=(3, 30, k)).astype(float)
    source = rng.permuted(np.broadcast_to(np.arange(k, dtype=np.uint8), (20, 30, k)), axis=-1)
    scores = counted.shuffled(metric, label, predictions, source)
    taken = np.take_along_axis(predictions[None], source[:, None].astype(int), axis=-1)  # (20, 3, 30, k)
    expected = [[[score(metric, label, slot) for slot in one.T] for one in sets] for sets in taken]
    np.testing.assert_array_equal(scores, expected)
