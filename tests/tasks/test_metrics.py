"""Metrics compared with scikit-learn and SciPy, and sums in samples with repeated examples."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as sk

from headspec.errors import NumericalError
from headspec.tasks import metrics, parts
from headspec.tasks.kinds.translation.metrics import counted
from headspec.tasks.metrics import (
    bootstrap_counts,
    chance,
    metric,
    resampled_scores,
    score,
    scores,
    shuffled_scores,
)
from headspec.tasks.registry import KINDS

REFERENCE = {
    "accuracy": sk.accuracy_score,
    "f1": lambda label, prediction: sk.f1_score(label == 1, prediction == 1, zero_division=0),
    "matthews": sk.matthews_corrcoef,
    "pearson": lambda label, prediction: stats.pearsonr(label, prediction).statistic,
    "spearman": lambda label, prediction: stats.spearmanr(label, prediction).statistic,
}
CORRELATIONS = ("pearson", "spearman")
#: metrics of predictions that are differences, whatever the labels
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


#: metrics of units of sentences: shares of right ones, with their place in predictions, and F1
SHARES, F1 = {"word_accuracy": 0, "las": 0, "uas": 1}, ("span_f1", "bracket_f1", "role_f1")
TEXTS = ("chrf", "bleu", "exact_match")
ALL = (*REFERENCE, *SHARES, *F1, *TEXTS)


def drawn(rng, name, sets, n, largest=3):
    """Labels (n, ...) and predictions (sets, n, ...): classes below `largest`, or what is counted."""
    if name in PAIRS:
        return np.zeros(n), rng.integers(-1, 2, size=(sets, n)).astype(float)
    if name in REFERENCE:
        return tuple(rng.integers(largest, size=shape).astype(float) for shape in (n, (sets, n)))
    if name in TEXTS:
        reference = "a b c d e f"
        texts = np.array([counted([text], [reference])[0] for text in (reference, "a b c d x", "a f")])
        return texts[rng.integers(2, size=n)], texts[rng.integers(3, size=(sets, n))]
    units = rng.integers(1, 30, size=n)
    right = rng.integers(units + 1, size=(sets, n))
    more = right + rng.integers(0, 30, size=(sets, n)) if name in F1 else (right + units) // 2
    guessed = rng.integers(units + 1)
    return np.stack([units, guessed, guessed + 3], axis=-1), np.stack([right, more], axis=-1)


def test_kinds_of_tasks_agree_on_their_metrics():
    """A name is one metric, whatever kinds have it."""
    for kind in KINDS:
        assert all(metric(name) is one for name, one in parts.load_part(kind, "METRICS").items())


@pytest.mark.parametrize("name", [*SHARES, *F1])
def test_metrics_of_units_are_ratios_of_sums(name):
    """4 and 6 units; 3 of 5 and 2 of 3 predicted ones are right, 1 of 2 and 0 of 1 blind ones."""
    label, prediction = [[4, 1, 2], [6, 0, 1]], [[3, 5], [2, 3]]
    weights = np.array([[1, 1], [2, 1], [0, 3], [0, 0]])
    for values, found in (
        (np.array(prediction), score(name, label, prediction, weights)),
        (np.array(label)[:, 1:], chance(name, label, weights)),
    ):
        right, other = weights @ values[:, SHARES.get(name, 0)], weights @ values[:, 1]
        units = weights @ [4, 6]
        expected = 2 * right / np.maximum(units + other, 1) if name in F1 else right / np.maximum(units, 1)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.filterwarnings("ignore:A single label was found")
@pytest.mark.parametrize("metric", REFERENCE)
@given(st.data())
def test_scores_are_those_of_the_reference_libraries(metric, data):
    label, prediction, counts = data.draw(samples(metric))
    assert score(metric, label, prediction) == pytest.approx(reference(metric, label, prediction), abs=1e-9)
    repeated = [reference(metric, np.repeat(label, c), np.repeat(prediction, c)) for c in counts]
    assert score(metric, label, prediction, counts) == pytest.approx(np.array(repeated), abs=1e-9)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("chunk", [100, metrics.CHUNK])
def test_sums_at_once_are_those_one_by_one(name, chunk, monkeypatch):
    """Counts agree to the last digit, whatever else is summed, in whatever parts."""
    monkeypatch.setattr(metrics, "CHUNK", chunk)
    rng = np.random.default_rng(0)
    label, predictions = drawn(rng, name, 5, 40)
    weights = rng.multinomial(40, np.full(40, 1 / 40), size=17)
    found = resampled_scores(name, label, predictions, weights)
    rows = [np.repeat(np.arange(40), row) for row in weights]
    expected = [[score(name, label[row], each[row]) for each in predictions] for row in rows]
    limit = 1e-12 if name in CORRELATIONS else 0
    np.testing.assert_allclose(found, expected, rtol=0, atol=limit)
    once = [score(name, label, each) for each in predictions]
    np.testing.assert_allclose(scores(name, label, predictions), once, rtol=0, atol=limit)
    assert (np.ptp(found, axis=0) > 0).all()


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("k", [2, 3, 4])
def test_shuffled_scores_are_those_of_the_shuffled_predictions(name, k):
    rng = np.random.default_rng(k)
    label, predictions = drawn(rng, name, 3 * k, 30, 2)
    predictions = predictions.reshape(3, k, *predictions.shape[1:])
    source = rng.permuted(np.broadcast_to(np.arange(k, dtype=np.uint8), (20, 30, k)), axis=-1)
    found = shuffled_scores(name, label, predictions, source)
    limit = 1e-12 if name in CORRELATIONS else 0
    for resample, row in zip(source, found, strict=True):
        slots = predictions[:, resample.T, np.arange(30)]  # (sets, k, n, ...)
        expected = [scores(name, label, slot) for slot in slots]
        np.testing.assert_allclose(row, expected, rtol=0, atol=limit)


@pytest.mark.parametrize("name", ALL)
def test_large_counts_are_exact(name):
    """Sums beyond those that float32 has."""
    label, predictions = drawn(np.random.default_rng(0), name, 2, 20)
    weights = np.array([[10**7 + 1] * 20, [1] * 20])
    if name in SHARES or name in F1 or name in TEXTS:
        many, once = resampled_scores(name, label, predictions, weights)
        np.testing.assert_allclose(many, once, rtol=1e-12)
        predictions[0, 0], label[0] = predictions[0, 0] + 2**24, label[0] + 2**24
    expected = [score(name, label, each, weights / 2) for each in predictions]  # not whole: in float64
    np.testing.assert_allclose(resampled_scores(name, label, predictions, weights).T, expected, rtol=1e-12)


@pytest.mark.parametrize("metric", ["matthews", *CORRELATIONS])
def test_what_is_constant_in_a_sample_has_correlation_zero(metric):
    weights = np.array([[1, 1, 1, 1, 1], [0.3, 0.1, 0.7, 0, 0.9]])
    for constant in (0.0, 1.0, 0.1, 1e8 / 3):
        assert score(metric, [0, 1, 1, 0, 1], np.full(5, constant), weights).tolist() == [0, 0]
    assert score(metric, [0.1, 0.2, 0.3], [0.7, 0.5, 0.4], [[3, 0, 0]]).tolist() == [0]
    assert score("f1", [0, 0], [0, 0]) == 0


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(name, bad):
    label, (prediction,) = (of.astype(float) for of in drawn(np.random.default_rng(0), name, 1, 3))
    for broken in (label, prediction):
        kept, broken.reshape(-1)[-1] = broken.reshape(-1)[-1], bad
        what = "labels" if broken is label else "predictions"
        for weights in (None, [[1, 0, 2]]):
            with pytest.raises(NumericalError, match=f"^{name}: 1 of 3 {what} are nan or infinite$"):
                score(name, label, prediction, weights)
        if broken is label:
            with pytest.raises(NumericalError, match="labels"):
                chance(name, label)
        broken.reshape(-1)[-1] = kept


@pytest.mark.parametrize("name", ALL)
def test_wrong_shapes_are_refused(name):
    """Among them tables of an earlier version, where several values were packed into one number."""
    label, (prediction,) = drawn(np.random.default_rng(0), name, 1, 3)
    one, several = np.arange(3.0), np.ones((3, 29))
    wrong = (one, one) if label.ndim > 1 else (several, several)
    for pair in (wrong, (label[:0], prediction[:0]), (label[:2], prediction)):
        with pytest.raises(ValueError, match=f"{name}: got labels of shape .* at least one example"):
            score(name, *pair)
    with pytest.raises(ValueError, match="at least one example"):
        chance(name, wrong[0])


@pytest.mark.parametrize("offset", [0, 1e3, 1e8])
@pytest.mark.parametrize("scale", [1e-3, 1, 1e6])
def test_correlations_of_samples_are_those_of_their_deviations(offset, scale):
    """As if every sample were centred on its own mean, in twice as many digits."""
    rng = np.random.default_rng(0)
    label, noise = rng.normal(size=(2, 50))
    label, prediction = np.round(label, 3) * scale + offset, np.round(label + noise, 3) * scale - offset
    weights = bootstrap_counts(50, 30, rng)
    for found, row in zip(score("pearson", label, prediction, weights), weights, strict=True):
        x, y = (np.repeat(of, row).astype(np.longdouble) for of in (label, prediction))
        x, y = x - x.mean(), y - y.mean()
        assert found == pytest.approx(float((x * y).sum() / np.sqrt((x**2).sum() * (y**2).sum())), abs=1e-12)


FIVE, FOUR = [0, 0, 0, 1, 2], [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("metric", "label", "weights", "expected"),
    [
        ("accuracy", FIVE, None, 3 / 5),
        ("accuracy", [0, 0, 1], [[1, 1, 1], [0, 1, 2]], [2 / 3, 1 / 3]),  # samples keep the constant of all
        ("f1", FIVE, None, 2 / 5 / (1 + 1 / 5)),
        *((name, FIVE, None, 0) for name in ("matthews", *CORRELATIONS)),
        ("pair_accuracy", FOUR, [[1, 1, 1, 1], [4, 0, 0, 0]], [0.5, 0.5]),
        ("logit_difference", FOUR, None, 0),
    ],
)
def test_chance_is_the_best_constant(metric, label, weights, expected):
    assert chance(metric, label, weights) == pytest.approx(expected)


@pytest.mark.parametrize("metric", ["accuracy", "f1", "matthews"])
@given(label=st.lists(st.integers(0, 1), min_size=1, max_size=20))
def test_no_constant_beats_chance(metric, label):
    constants = [score(metric, label, np.full(len(label), c)) for c in (0, 1)]
    assert max(constants) == pytest.approx(chance(metric, label))


def test_metrics_that_a_task_takes_from_another_kind_are_roots_of_its_code():
    assert metrics.files(["accuracy", "f1"], ["classification"]) == []
    taken = metrics.files(["accuracy", "las"], ["classification"])
    assert taken == [str(parts.file_of("dependencies", "METRICS"))]
