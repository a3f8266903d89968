"""Metrics compared with scikit-learn and SciPy, weighted metrics with repeated examples."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as sk

from headspec.errors import NumericalError
from headspec.models.tokens import text_counting
from headspec.statistics import metrics, text_counts, unit_counts
from headspec.statistics.metrics import chance, score

REFERENCE = {
    "accuracy": sk.accuracy_score,
    "f1": lambda label, prediction: sk.f1_score(label == 1, prediction == 1, zero_division=0),
    "matthews": sk.matthews_corrcoef,
    "pearson": lambda label, prediction: stats.pearsonr(label, prediction).statistic,
    "spearman": lambda label, prediction: stats.spearmanr(label, prediction).statistic,
}
CORRELATIONS = ("pearson", "spearman")
#: of predictions that are differences, whatever the labels
PAIRS = {
    "pair_accuracy": lambda label, prediction: np.mean([(d > 0) + (d == 0) / 2 for d in prediction]),
    "logit_difference": lambda label, prediction: prediction.mean(),
}
REFERENCE |= PAIRS


def reference(metric, label, prediction):
    constant = np.ptp(label) == 0 or np.ptp(prediction) == 0
    return 0.0 if metric in CORRELATIONS and constant else REFERENCE[metric](label, prediction)


@st.composite
def samples(draw, metric):
    """Labels and predictions (n,), and counts (3, n) with at least two examples per row."""
    n = draw(st.integers(2, 12))
    real = metric in (*CORRELATIONS, *PAIRS)
    value = st.integers(-20, 20).map(lambda v: v / 4) if real else st.integers(0, 3)
    rows = st.lists(st.integers(0, 3), min_size=n, max_size=n)
    counts = np.array([draw(rows) for _ in range(3)])
    assume((counts.sum(axis=1) >= 2).all())
    label, prediction = (np.array(draw(st.lists(value, min_size=n, max_size=n)), float) for _ in "lp")
    return label, prediction, counts


def test_every_metric_has_a_reference():
    """Those of words and of texts, from counts, have theirs in other tests."""
    assert set(metrics.METRICS) == {*REFERENCE, *unit_counts.RATIOS, *text_counts.METRICS}


@pytest.mark.filterwarnings("ignore:A single label was found")
@pytest.mark.parametrize("metric", REFERENCE)
@given(st.data())
def test_scores_are_those_of_the_reference_libraries(metric, data):
    label, prediction, counts = data.draw(samples(metric))
    assert score(metric, label, prediction) == pytest.approx(reference(metric, label, prediction), abs=1e-9)
    repeated = [reference(metric, np.repeat(label, c), np.repeat(prediction, c)) for c in counts]
    assert score(metric, label, prediction, counts) == pytest.approx(np.array(repeated), abs=1e-9)


@pytest.mark.parametrize("metric", metrics.METRICS)
def test_chunks_do_not_change_scores(metric, monkeypatch):
    rng = np.random.default_rng(0)
    label, prediction = rng.integers(3, size=(2, 40))
    if metric in unit_counts.RATIOS:
        prediction = prediction * (1 + unit_counts.BASE)  # both counts
    if metric in text_counts.METRICS:
        texts = [["a b c d e f", "a b c d", "a f"][number] for number in prediction]
        prediction = text_counting.numbers(texts, ["a b c d e f"] * 40)
    counts = rng.integers(4, size=(17, 40))
    whole = score(metric, label, prediction, counts)
    monkeypatch.setattr(metrics, "CHUNK", 100)
    assert score(metric, label, prediction, counts) == pytest.approx(whole, abs=1e-12)
    assert np.ptp(whole) > 0


@pytest.mark.parametrize("metric", ["matthews", *CORRELATIONS])
@pytest.mark.parametrize("constant", [0.0, 1.0, 0.1, 1e8 / 3])
def test_constant_predictions_have_correlation_zero(metric, constant):
    label = np.array([0, 1, 1, 0, 1])
    weights = np.array([[1, 1, 1, 1, 1], [0.3, 0.1, 0.7, 0, 0.9]])
    assert score(metric, label, np.full(5, constant), weights).tolist() == [0, 0]


def test_a_constant_sample_scores_zero_not_nan():
    only_first = [[3, 0, 0]]
    for metric in ("matthews", *CORRELATIONS):
        assert score(metric, [0.1, 0.2, 0.3], [0.7, 0.5, 0.4], only_first).tolist() == [0]
    assert score("f1", [0, 0], [0, 0]) == 0


def test_matthews_of_two_classes_in_closed_form():
    label, prediction = [1] * 6 + [0] * 4, [1, 1, 1, 1, 0, 0] + [0, 0, 0, 1]  # tp 4, fn 2, tn 3, fp 1
    assert score("matthews", label, prediction) == pytest.approx((4 * 3 - 1 * 2) / np.sqrt(5 * 6 * 4 * 5))


def test_correlation_is_exact_far_from_zero():
    label = 1e6 + np.array([0.0, 1, 2, 3])
    assert score("pearson", label, [0, 1, 2, 3.5]) == pytest.approx(
        stats.pearsonr([0, 1, 2, 3], [0, 1, 2, 3.5]).statistic, abs=1e-9
    )


@pytest.mark.parametrize("metric", metrics.METRICS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(metric, bad):
    for label, prediction, name in (
        ([0, bad, 1], [0, 1, 1], "labels"),
        ([0, 1, 1], [bad, 1, bad], "predictions"),
    ):
        with pytest.raises(NumericalError, match=rf"{metric}: \d of 3 {name} are nan or infinite"):
            score(metric, label, prediction)
        with pytest.raises(NumericalError, match=name):
            score(metric, label, prediction, [[1, 0, 2]])
    with pytest.raises(NumericalError, match="labels"):
        chance(metric, [0, bad, 1])


def test_unknown_metrics_and_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match="got 'acuracy', expected accuracy, f1.*Did you mean 'accuracy'"):
        score("acuracy", [0], [0])
    for label, prediction in (([], []), ([0, 1], [0]), ([0, 1], [[0, 1]])):
        with pytest.raises(ValueError, match="accuracy: got labels of shape .* at least one example"):
            score("accuracy", label, prediction)
    with pytest.raises(ValueError, match="at least one example"):
        chance("matthews", [])


def test_chance_is_the_best_constant():
    label = np.array([0, 0, 0, 1, 2])
    assert chance("accuracy", label) == pytest.approx(3 / 5)
    p = 1 / 5
    assert chance("f1", label) == pytest.approx(2 * p / (1 + p))
    assert [chance(m, label) for m in ("matthews", *CORRELATIONS)] == [0, 0, 0]


def test_chance_of_pairs_is_no_preference():
    label = np.zeros(4)
    assert chance("pair_accuracy", label) == 0.5 and chance("logit_difference", label) == 0
    assert chance("pair_accuracy", label, [[1, 1, 1, 1], [4, 0, 0, 0]]).tolist() == [0.5, 0.5]


def test_weighted_chance_keeps_its_constant():
    label = np.array([0, 0, 1])
    assert chance("accuracy", label, [[1, 1, 1], [0, 1, 2]]) == pytest.approx([2 / 3, 1 / 3])


@pytest.mark.parametrize("metric", ["accuracy", "f1", "matthews"])
@given(label=st.lists(st.integers(0, 1), min_size=1, max_size=20))
def test_no_constant_beats_chance(metric, label):
    constants = [score(metric, label, np.full(len(label), c)) for c in (0, 1)]
    assert max(constants) == pytest.approx(chance(metric, label))
