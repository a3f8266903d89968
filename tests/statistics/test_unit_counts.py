"""Counts of units in one number."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headspec.statistics.metrics import chance, score
from headspec.statistics.unit_counts import BASE, blind, counts, packed

count = st.integers(0, BASE - 1)


@given(count, count, count)
def test_counts_are_unpacked(first, second, third):
    values = np.array([packed(first, second), packed(first, second, third)])
    assert counts(values, 0).tolist() == [first] * 2 and counts(values, 1).tolist() == [second] * 2
    assert counts(values, 2).tolist() == [0, third]
    assert blind(values[1]) == packed(second, third)
    assert np.float32(values[0]) == values[0]  # as predictions are stored


def test_too_many_units_are_refused():
    with pytest.raises(ValueError, match=f"{BASE} units in a sentence; expected fewer than {BASE}"):
        packed(1, BASE)


def test_metrics_are_ratios_of_sums():
    """4 and 6 units; 3 of 5 and 2 of 3 predicted ones are right, 1 of 2 and 0 of 1 blind ones."""
    label = [packed(4, 1, 2), packed(6, 0, 1)]
    prediction = [packed(3, 5), packed(2, 3)]
    weights = [[1, 1], [2, 1], [0, 3], [0, 0]]
    for metric in ("word_accuracy", "las"):
        assert score(metric, label, prediction, weights).tolist() == [5 / 10, 8 / 14, 6 / 18, 0]
        assert chance(metric, label) == 1 / 10
    for metric in ("span_f1", "bracket_f1", "role_f1"):
        assert score(metric, label, prediction) == 2 * 5 / (10 + 8)
        assert chance(metric, label) == 2 * 1 / (10 + 3)
    assert score("uas", [packed(4, 1, 2)], [packed(1, 3)]) == 3 / 4
    assert chance("uas", [packed(4, 1, 2)]) == 2 / 4


def test_a_sample_without_units_scores_zero():
    for metric in ("word_accuracy", "span_f1"):
        assert score(metric, [packed(0, 0, 0)], [packed(0, 0)]) == 0
