"""Dissociation: published tables, invariants, coverage of intervals, level of tests."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from headspec import tables
from headspec.errors import DataError
from headspec.statistics.dissociation.analysis import _case_columns, dissociation_tables
from headspec.statistics.dissociation.resampled import (
    Evaluation,
    ResampledDissociation,
    combine,
    resample_run,
    resample_runs,
)
from headspec.statistics.dissociation.scores import case, is_distinct, relative, scores
from headspec.statistics.resampling import holm, interval, p_value, permutations, permuted_scores
from headspec.tasks.metrics import bootstrap_counts, score
from support.data.evaluations import evaluated
from support.schemas import SCHEMAS

# Li et al. 2023, five tasks at once, top 30 % pruned, in per cent, order MNLI, QQP, QNLI, AG, SST-2; rows:
# task whose heads are pruned, columns: evaluated task.
FIVE = np.array(
    [
        [58.23, 71.52, 61.39, 91.99, 85.32],
        [62.54, 69.43, 60.80, 91.54, 85.13],
        [59.29, 70.96, 57.50, 91.88, 86.35],
        [65.88, 76.28, 69.35, 80.01, 85.09],
        [69.50, 77.40, 73.96, 86.51, 82.45],
    ]
)
FIVE_BASE = np.array([83.91, 87.64, 90.26, 94.50, 92.05])

# The same paper, input paradigm: base; after pruning A's heads, B's heads; D_A, D_B; D_mean; distinct.
PAIRS = {
    "AG+QNLI": ([94.13, 91.13], [[85.94, 65.04], [92.44, 52.95]], [6.905, 13.270], 10.088, True),
    "AG-Pair+QNLI": ([94.46, 90.72], [[56.17, 64.85], [64.52, 53.66]], [8.842, 12.337], 10.590, True),
    "AG+SST-2": ([94.29, 92.47], [[89.51, 89.76], [92.32, 86.01]], [2.982, 4.051], 3.517, False),
    "AG-Pair+SST-2": ([94.68, 92.66], [[67.65, 89.33], [71.80, 85.78]], [4.387, 3.837], 4.112, False),
}

matrices = arrays(float, (3, 3), elements=st.floats(0.05, 1))
bases = arrays(float, 3, elements=st.floats(0.2, 1))


def test_published_five_tasks_by_equation_7():
    d = 100 * scores(FIVE, FIVE_BASE)
    assert d == pytest.approx([7.237, 5.260, 9.833, 11.079, 3.284], abs=5e-4)
    # Columns of a task are compared, not rows, as in the released code.
    # The paper prints QNLI and AG swapped, and a value of MNLI that does not follow from its matrix.
    printed = np.array([7.28, 5.26, 11.07, 9.84, 3.28])
    assert d[[1, 3, 2, 4]] == pytest.approx(printed[[1, 2, 3, 4]], abs=0.011)
    assert abs(d[0] - printed[0]) > 0.04


@pytest.mark.parametrize("pair", PAIRS)
def test_published_input_paradigm(pair):
    base, matrix, expected, mean, distinct = PAIRS[pair]
    d = scores(matrix, base)
    # Metrics are printed to 0.01, which leaves D uncertain by 2 * 0.005 / 0.91.
    assert 100 * d == pytest.approx(expected, abs=0.011)
    assert 100 * d.mean() == pytest.approx(mean, abs=0.011)
    assert case(d) == "double"
    assert is_distinct(case(d), d.mean(), 0.10) is distinct


@given(matrices, bases, st.floats(0.1, 10))
def test_scale_of_the_metric_does_not_matter(matrix, base, scale):
    assert scores(scale * matrix, scale * base) == pytest.approx(scores(matrix, base), abs=1e-9)


@given(matrices, bases, st.permutations(range(3)))
def test_order_of_the_tasks_does_not_matter(matrix, base, order):
    renamed = scores(matrix[np.ix_(order, order)], base[order])
    assert renamed == pytest.approx(scores(matrix, base)[order], abs=1e-12)


@given(bases, bases)
def test_prunings_that_do_the_same_do_not_dissociate(metric, base):
    assert scores(np.tile(metric, (3, 1)), base).tolist() == [0, 0, 0]


@given(
    arrays(float, (4, 3, 3), elements=st.floats(0.05, 1)), arrays(float, (4, 3), elements=st.floats(0.2, 1))
)
def test_leading_axes_broadcast(matrix, base):
    np.testing.assert_array_equal(scores(matrix, base), [scores(matrix[r], base[r]) for r in range(4)])
    np.testing.assert_array_equal(scores(matrix, base[0])[2], scores(matrix[2], base[0]))


@pytest.mark.parametrize("base", [0.0, -0.1])
def test_a_base_that_is_not_positive_gives_nan(base):
    np.testing.assert_array_equal(relative([[0.1, 0.4], [0.2, 0.3]], [base, 0.5])[:, 0], [np.nan, np.nan])
    np.testing.assert_allclose(scores([[0.1, 0.4], [0.2, 0.3]], [base, 0.5]), [np.nan, 0.2])


def test_one_task_does_not_dissociate():
    with pytest.raises(ValueError, match="at least two tasks, not 1"):
        scores([[0.5]], [0.9])


@pytest.mark.parametrize(
    ("d", "low", "high", "expected"),
    [
        ([0.1, 0.2], None, None, "double"),
        ([0.1, -0.2], None, None, "single"),
        ([0.1, 0.0], None, None, "single"),
        ([-0.1, -0.2], None, None, "inverted"),
        ([-0.1, 0.0], None, None, "inverted"),
        ([0.0, 0.0], None, None, "none"),
        ([0.1, 0.2], [0.01, 0.1], [0.2, 0.3], "double"),
        ([0.1, 0.2], [-0.01, 0.1], [0.2, 0.3], "single"),
        ([0.1, 0.2], [-0.01, -0.1], [0.2, 0.5], "none"),
        ([-0.1, -0.2], [-0.2, -0.4], [0.1, -0.1], "inverted"),
        ([-0.1, -0.2], [-0.2, -0.6], [0.1, 0.1], "none"),
        ([0.01, -0.2], [-0.2, -0.4], [0.1, -0.1], "none"),
        ([0.1, 0.2, 0.1], [0.01, 0.1, -0.1], [0.2, 0.3, 0.3], "single"),
        ([np.nan, 0.2], [np.nan, 0.1], [np.nan, 0.3], "single"),
        ([np.nan, -0.2], [np.nan, -0.3], [np.nan, -0.1], "none"),
    ],
)
def test_case(d, low, high, expected):
    assert case(d, None if low is None else (low, high)) == expected


@pytest.mark.parametrize(
    ("d", "pointwise", "simultaneous", "expected"),
    [
        ([0.1, 0.2], ([0.01, 0.01], [0.2, 0.3]), ([-0.01, -0.01], [0.3, 0.4]), "double"),
        ([0.1, 0.2], ([-0.1, 0.01], [0.2, 0.3]), ([-0.2, -0.01], [0.3, 0.4]), "none"),
        ([0.1, 0.2], ([-0.1, 0.02], [0.2, 0.3]), ([-0.2, 0.01], [0.3, 0.4]), "single"),
        ([-0.1, -0.2], ([-0.2, -0.3], [0.1, -0.01]), ([-0.3, -0.4], [0.2, 0.01]), "none"),
    ],
)
def test_single_needs_a_simultaneous_interval_and_double_pointwise_ones(d, pointwise, simultaneous, expected):
    assert case(d, pointwise, simultaneous) == expected


@pytest.mark.parametrize(("shift", "expected"), [(2.1, "none"), (2.3, "single")])
def test_the_case_of_a_mixture_has_intervals_that_hold_at_once(shift, expected):
    """At 95 % an interval reaches 1.96 standard errors; two that hold at once, 2.24."""
    d = np.array([[shift, -shift]])
    bootstrap = d + stats.norm.ppf((np.arange(2000) + 0.5) / 2000)[:, None, None]
    sampled = ResampledDissociation(
        pair(rng=np.random.default_rng(0)).run, "", d[0], d[0], d, bootstrap, d, *[d[0] > 9] * 2
    )
    assert _case_columns(sampled, 0.95, 0.1) == {"case": expected, "distinct": False}


def test_holm_in_closed_form():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(holm([0.6, np.nan, 0.04]), [0.6, np.nan, 0.08])
    assert holm([0.9, 0.8]) == pytest.approx([1, 1])


def test_p_value_counts_both_sides_and_the_observed_one():
    null = np.array([-3.0, -1, 0, 1, 2, 3, 0.5, 0, 0])
    assert [float(p_value(d, null)) for d in (3.0, -2, 0, 4)] == pytest.approx([0.3, 0.4, 1.0, 0.1])
    assert np.isnan(p_value(np.nan, null))


def test_interval_is_undefined_if_a_resample_is():
    low, high = interval(np.array([[0.0, 1], [1, np.nan], [2, 1]]), 0.5)
    np.testing.assert_array_equal(low, [0.5, np.nan])
    np.testing.assert_array_equal(high, [1.5, np.nan])


def test_bootstrap_counts_draw_n_of_n():
    counts = bootstrap_counts(50, 400, np.random.default_rng(0))
    assert counts.shape == (400, 50) and (counts.sum(axis=1) == 50).all()
    assert counts.var() == pytest.approx(1 - 1 / 50, rel=0.1)  # binomial(50, 1/50)


@pytest.mark.parametrize("k", [2, 3])
def test_permutations_are_those_of_numpy(k):
    """Also the state that they leave, with odd numbers of them."""
    ours, numpys = np.random.default_rng(5), np.random.default_rng(5)
    for _ in range(2):
        drawn = permutations((7, 3, k), ours)
        expected = numpys.permuted(np.broadcast_to(np.arange(k, dtype=np.uint8), (7, 3, k)), axis=-1)
        np.testing.assert_array_equal(drawn, expected)
    assert ours.random() == numpys.random()


def test_permutations_reach_every_assignment_equally_often():
    label = np.zeros(2)
    predictions = np.array([[0, 1, 1], [0, 0, 0]])  # in the first example, one of three is right
    (shuffled,) = permuted_scores(
        "accuracy", label, predictions.T[None], 3000, np.random.default_rng(0)
    ).swapaxes(0, 1)
    assert (np.sort(shuffled, axis=1) == [0.5, 0.5, 1]).all()
    assert np.bincount(shuffled.argmax(axis=1)) == pytest.approx([1000] * 3, rel=0.1)


@pytest.mark.parametrize("k", [2, 3])
def test_permutations_of_an_additive_metric_have_the_exact_variance(k):
    """Accuracy of one slot: every example is a Bernoulli variable with its share of right alternatives."""
    rng = np.random.default_rng(1)
    correct = rng.random((80, k)) < 0.7
    shuffled = permuted_scores("accuracy", np.ones(80), correct.T[None].astype(float), 4000, rng)[:, 0]
    share = correct.mean(axis=1)
    assert shuffled.mean(axis=0) == pytest.approx([share.mean()] * k, abs=0.003)
    expected = np.sqrt((share * (1 - share)).sum()) / 80
    assert shuffled.std(axis=0) == pytest.approx([expected] * k, rel=0.06)


# ---- runs -------------------------------------------------------------------------------------


FRACTION = 0.3


def pruned(predictions, label, metric="accuracy", **run):
    """A run from {(task, mask): predictions (n,)}."""
    keyed = {
        (task, mask, 0.0 if mask == "none" else FRACTION): values
        for (task, mask), values in predictions.items()
    }
    return evaluated(["task", "pruned_for", "fraction"], keyed, label, metric, **run)


def evaluation(accuracy, rng, n=200, seed=0, label=None, metric="accuracy", mixture=None):
    """A run whose predictions under each mask are right with probability accuracy[task][mask]."""
    truth = np.random.default_rng(0).integers(2, size=n) if label is None else label
    predictions = {
        (task, mask): np.where(rng.random(n) < p, truth, 1 - truth)
        for task, masks in accuracy.items()
        for mask, p in masks.items()
    }
    return pruned(predictions, truth, metric, seed=seed, mixture=mixture or "+".join(accuracy))


def pair(base=0.9, same=0.6, other=0.8, **more):
    """A run of two tasks: accuracy without pruning, with the task's heads pruned, with the other's pruned."""
    accuracy = {"a": {"none": base, "a": same, "b": other}, "b": {"none": base, "a": other, "b": same}}
    return evaluation(accuracy, **more)


def study(*evaluations, resamples=300, confidence=0.95):
    return dissociation_tables(evaluations, resamples, confidence, distinct=0.10, fraction=FRACTION, seed=7)


def test_identical_predictions_do_not_dissociate():
    one = pair(rng=np.random.default_rng(0))
    base = one.predictions[one.predictions["pruned_for"] == "none"]
    same = pd.concat([base, *(base.assign(pruned_for=mask, fraction=FRACTION) for mask in "ab")])
    result = study(Evaluation(one.run, one.metrics, same))
    table = result["dissociation"]
    assert table[["dissociation", "ci_low", "ci_high"]].to_numpy().tolist() == [[0, 0, 0]] * 2
    assert table["p_value"].tolist() == [1, 1]
    assert result["mixtures"]["case"].tolist() == ["none"]
    assert not result["mixtures"]["distinct"].any() and not result["mixtures"]["at_chance"].any()


def test_resamples_depend_on_the_seed():
    one = pair(same=0.85, rng=np.random.default_rng(0))
    first, again, other = (dissociation_tables([one], 99, 0.95, 0.1, FRACTION, seed) for seed in (1, 1, 2))
    assert first["dissociation"].equals(again["dissociation"])
    for column in ("ci_low", "p_value"):
        assert not first["dissociation"][column].equals(other["dissociation"][column])


def test_estimates_are_those_of_the_pruning_matrix():
    masks = {"none": 0.95, "a": 0.55, "b": 0.9, "c": 0.7}
    one = evaluation(
        {"a": masks, "b": masks | {"a": 0.8}, "c": masks | {"b": 0.6}}, np.random.default_rng(17)
    )
    right = one.predictions["label"] == one.predictions["prediction"]
    accuracy = right.groupby([one.predictions["pruned_for"], one.predictions["task"]]).mean().unstack()
    table = study(one)["dissociation"].set_index("task")
    assert table["base"].to_dict() == pytest.approx(accuracy.loc["none"].to_dict())
    most_frequent = one.predictions.groupby("task")["label"].agg(
        lambda label: (label == label.mode()[0]).mean()
    )
    assert table["chance"].to_dict() == pytest.approx(most_frequent.to_dict())
    for task, others in {"a": "bc", "b": "ac", "c": "ab"}.items():
        performance = accuracy[task] / accuracy.loc["none", task]
        expected = (performance[others[0]] + performance[others[1]]) / 2 - performance[task]
        assert table.loc[task, "dissociation"] == pytest.approx(expected)
        assert table.loc[task, "ci_low"] < expected < table.loc[task, "ci_high"]


@pytest.mark.parametrize("metric", ["accuracy", "f1", "matthews"])
@pytest.mark.parametrize("sign", [1, -1])
def test_strong_effects_are_distinct_or_inverted(metric, sign):
    same, other = (0.6, 0.8)[::sign]
    result = study(pair(same=same, other=other, rng=np.random.default_rng(0), n=400, metric=metric))
    rows, mixture = result["dissociation"], result["mixtures"].iloc[0]
    assert (sign * rows[["ci_low", "dissociation", "ci_high"]] > 0).all(axis=None)
    assert (rows["dissociation"] < rows["ci_high"]).all() and (rows["p_value"] == 1 / 301).all()
    assert (mixture["case"], mixture["distinct"]) == (("double", True) if sign > 0 else ("inverted", False))
    assert mixture["mean_dissociation"] == pytest.approx(rows["dissociation"].mean())


def test_at_chance_marks_tasks_that_pruning_brought_to_the_most_frequent_class():
    label = np.repeat([0, 1], [240, 60])
    masks = {"none": 0.97, "a": 0.95, "b": 0.95}
    one = evaluation({"a": masks, "b": masks | {"a": 0.8}}, np.random.default_rng(6), n=300, label=label)
    result = study(one)
    expected = {"a": False, "b": True, "mean": True}
    assert result["combined"].set_index("task")["at_chance"].to_dict() == expected
    assert result["dissociation"]["at_chance"].tolist() == [False, True]
    assert result["mixtures"]["at_chance"].tolist() == [True]


@pytest.mark.slow
def test_intervals_cover_at_their_level():
    """True D is (0.8 - 0.6) / 0.9; 90 % intervals of 150 runs of two tasks."""
    rng = np.random.default_rng(3)
    covered = []
    for seed in range(150):
        bounds = resample_run(pair(rng=rng, n=150, seed=seed), [FRACTION], 200, 0.9, seed).at(0).interval(0.9)
        covered.append((bounds.low <= 0.2 / 0.9) & (bounds.high >= 0.2 / 0.9))
    assert 0.85 < np.mean(covered) < 0.95


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 3])
def test_p_values_are_uniform_if_no_pruning_differs(k):
    rng = np.random.default_rng(4)
    p = []
    for _ in range(300):
        label = rng.normal(size=60)
        predictions = label[:, None] + rng.normal(size=60)[:, None] + rng.normal(size=(60, k))
        observed = np.array([[score("pearson", label, column) for column in predictions.T]])
        shuffled = permuted_scores("pearson", label, predictions.T[None], 199, rng)[:, 0]
        d, *null = (m[1:].mean() - m[0] for m in (*observed, *shuffled))
        p.append(float(p_value(d, np.array(null))))
    assert stats.kstest(p, "uniform").pvalue > 0.01


@pytest.mark.slow
def test_ties_of_few_examples_do_not_make_p_too_small():
    rng = np.random.default_rng(5)
    masks = {"none": 0.9, "a": 0.7, "b": 0.7, "c": 0.7}
    runs = [evaluation(dict.fromkeys("abc", masks), rng, n=100, seed=seed) for seed in range(80)]
    p = study(*runs, resamples=199)["dissociation"]["p_value"]
    assert 0.005 < (p <= 0.05).mean() < 0.07 and 0.3 < (p <= 0.5).mean() < 0.55


def test_a_model_that_learnt_nothing_is_marked_and_has_no_case():
    """Its D is that of noise; here the other task's heads seem to matter."""
    label = np.repeat([0.0, 1.0], [190, 110])
    constant = dict.fromkeys(("none", "a", "b"), np.zeros(300))
    rng = np.random.default_rng(8)
    learnt = {
        mask: np.where(rng.random(300) < p, label, 1 - label)
        for mask, p in {"none": 0.95, "a": 0.7, "b": 0.95}.items()
    }
    values = {("a", mask): v for mask, v in learnt.items()} | {("b", mask): v for mask, v in constant.items()}
    nothing = pruned(values, label, method="frozen")
    values |= {("b", mask): v for mask, v in learnt.items()}
    known = pruned(values, label, method="frozen", seed=1)
    tables_found, result = study(nothing, known), {}
    for name in ("dissociation", "fractions", "areas", "combined", "mixtures"):
        frame = tables_found[name].assign(task=tables_found[name].get("task", "mean"))
        keys = ["seed"] * ("seed" in frame) + ["task"]
        result[name] = frame.set_index(keys)["unpruned_at_chance"].to_dict()
    expected = {"a": False, "b": True, "mean": True}
    assert result["combined"] == result["fractions"] == expected and result["areas"] == {}
    assert result["dissociation"] == {(0, "a"): False, (0, "b"): True, (1, "a"): False, (1, "b"): False}
    assert result["mixtures"] == {(0, "mean"): True, (1, "mean"): False}
    mixtures = tables_found["mixtures"].set_index("seed")
    assert mixtures["case"].to_dict() == {0: "chance", 1: "single"} and not mixtures["distinct"].any()
    assert tables_found["combined"].set_index("task").loc["mean", "case"] == "chance"


@pytest.mark.slow
@pytest.mark.parametrize(("metric", "base"), [("accuracy", 0.5), ("f1", 0.3), ("matthews", 0.5)])
def test_most_models_at_chance_are_marked_and_none_that_learnt(metric, base):
    rng = np.random.default_rng(9)
    guesses = {"none": base, "a": base, "b": base}
    knows = dict.fromkeys(guesses, 0.9)
    marks = []
    for _ in range(40):
        found = study(evaluation({"a": guesses, "b": knows}, rng, metric=metric), resamples=200)
        marks.append(found["dissociation"]["unpruned_at_chance"].to_numpy())
    assert np.mean(marks, axis=0)[0] >= 0.85 and np.mean(marks, axis=0)[1] == 0


def test_two_seeds_are_their_mean_with_an_interval_over_examples():
    """However much they differ: two seeds say nothing about a third."""
    rng = np.random.default_rng(9)
    runs = [pair(same=same, rng=rng, n=300, seed=seed) for seed, same in ((0, 0.78), (1, 0.3))]
    result = study(*runs)
    combined = result["combined"].set_index("task")
    assert combined["n_seeds"].tolist() == [2, 2, 2] and set(combined["ci_over"]) == {"examples"}
    for task, rows in result["dissociation"].groupby("task"):
        assert combined.loc[task, "dissociation"] == pytest.approx(rows["dissociation"].mean())
        width = combined.loc[task, "ci_high"] - combined.loc[task, "ci_low"]
        assert width < (rows["ci_high"] - rows["ci_low"]).max()
    assert pd.isna(combined.loc[["a", "b"], ["case", "distinct"]]).all(axis=None)
    low, high = combined.loc[["a", "b"], ["ci_low", "ci_high"]].to_numpy().T
    assert combined.loc["mean", "case"] == case(combined.loc[["a", "b"], "dissociation"], (low, high))


def test_three_seeds_that_differ_have_an_interval_over_seeds():
    rng = np.random.default_rng(9)
    accuracies = {0: 0.78, 1: 0.5, 2: 0.3}
    combined = study(*(pair(same=same, rng=rng, n=300, seed=s) for s, same in accuracies.items()))["combined"]
    assert set(combined["ci_over"]) == {"seeds and examples"}
    # t of two degrees of freedom times the standard error of D = (0.8 - own) / 0.9
    expected = 4.303 * np.std([same / 0.9 for same in accuracies.values()], ddof=1) / 3**0.5
    assert ((combined["ci_high"] - combined["ci_low"]) / 2).tolist() == pytest.approx([expected] * 3, rel=0.3)


@pytest.mark.parametrize("copies", [2, 3])
def test_copies_of_a_seed_add_no_information(copies):
    """Neither to the interval nor to the test: errors on shared examples do not average out."""
    one = pair(same=0.74, rng=np.random.default_rng(10))
    runs = [Evaluation(replace(one.run, seed=s), one.metrics, one.predictions) for s in range(copies)]
    alone, together = (study(*part)["combined"] for part in ([one], runs))
    assert (alone["p_value"] < 1).all() and together["p_value"].tolist() == alone["p_value"].tolist()
    if copies == 2:
        np.testing.assert_allclose(alone[["ci_low", "ci_high"]], together[["ci_low", "ci_high"]], atol=1e-12)
    else:
        widths = [(frame["ci_high"] - frame["ci_low"]).to_numpy() for frame in (alone, together)]
        np.testing.assert_allclose(*widths, rtol=0.1)


def seeds_of_a_null(rng, correlation, tasks="ab", n_seeds=3, n=100):
    """Seeds in which prunings differ only by random errors, correlated between seeds by `correlation`."""
    masks = ["none", *tasks]
    shared = rng.normal(size=(len(tasks), len(masks), n))
    label = np.arange(n) % 2
    for seed in range(n_seeds):
        latent = correlation**0.5 * shared + (1 - correlation) ** 0.5 * rng.normal(size=shared.shape)
        predictions = {
            (task, mask): label ^ (latent[t, m] > 0.5)
            for (t, task), (m, mask) in itertools.product(enumerate(tasks), enumerate(masks))
        }
        yield pruned(predictions, label, seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize("correlation", [0, 0.5, 0.9])
def test_p_values_of_combined_seeds_hold_their_level(correlation):
    rng = np.random.default_rng(18)
    p = []
    for repeat in range(120):
        runs = [
            resample_run(one, [FRACTION], 100, 0.95, repeat, 199) for one in seeds_of_a_null(rng, correlation)
        ]
        p.append(combine(runs).at(0).with_mean().p_value)
    p = np.array(p)  # (repeats, two tasks and their mean)
    assert 0.015 < (p <= 0.05).mean() < 0.08
    assert (p <= 0.5).mean() == pytest.approx(0.5, abs=0.07)


@pytest.mark.slow
def test_five_tasks_without_effect_rarely_dissociate():
    rng = np.random.default_rng(19)
    kinds = []
    for _ in range(150):
        runs = seeds_of_a_null(rng, 0, "abcde", n_seeds=1, n=160)
        kinds += study(*runs, resamples=200)["mixtures"]["case"].tolist()
    assert kinds.count("single") / len(kinds) < 0.06 and kinds.count("double") == 0
    assert (kinds.count("none") + kinds.count("chance")) / len(kinds) > 0.93


@pytest.mark.slow
def test_intervals_of_combined_seeds_cover_at_their_level():
    """Accuracy with a task's heads pruned varies between seeds, by about half of the variance of D.

    Errors are independent between seeds, so intervals are conservative.
    """
    rng = np.random.default_rng(20)
    covered = []
    for repeat in range(120):
        accuracies = 0.6 + 0.045 * rng.normal(size=3)
        runs = [
            resample_run(pair(same=same, rng=rng, n=150, seed=s), [FRACTION], 100, 0.95, repeat, 1)
            for s, same in enumerate(accuracies)
        ]
        bounds = combine(runs).at(0).with_mean().interval(0.95)
        covered.append((bounds.low <= 0.2 / 0.9) & (bounds.high >= 0.2 / 0.9))
    assert 0.93 < np.mean(covered) < 0.995


def test_seeds_on_other_examples_are_refused():
    rng = np.random.default_rng(21)
    runs = [pair(rng=rng, seed=0), pair(rng=rng, seed=1, n=150)]
    with pytest.raises(
        DataError, match="tuned/seed1/predictions.parquet: validation examples differ from those"
    ):
        study(*runs)


def at_fractions(same, rng, n=200):
    """A run of {fraction: accuracy} when a task's heads are pruned; pruning others has no effect."""
    by_fraction = [
        pair(same=p, other=0.9, rng=rng, n=n).predictions.replace({"fraction": {FRACTION: fraction}})
        for fraction, p in same.items()
    ]
    first, *others = by_fraction
    rest = [frame[frame["pruned_for"] != "none"] for frame in others]
    whole = pair(rng=rng, n=n)
    return Evaluation(whole.run, whole.metrics, pd.concat([first, *rest], ignore_index=True))


def at_some(one, *fractions):
    """The same run, as if it had been pruned at these fractions alone."""
    rows = one.predictions
    return replace(one, stored=rows[rows["fraction"].isin([0.0, *fractions])])


def test_a_fraction_depends_only_on_its_predictions():
    one = at_fractions({0.1: 0.85, 0.3: 0.6, 0.5: 0.5}, np.random.default_rng(22))
    every = dissociation_tables([one], 200, 0.95, 0.1, 0.3, 7)
    assert every["dissociation"]["fraction"].unique().tolist() == [0.1, 0.3, 0.5]
    columns = ["fraction", "task", "dissociation", "ci_low", "ci_high", "p_value", "at_chance"]
    for fraction in (0.1, 0.3, 0.5):
        alone = dissociation_tables([at_some(one, fraction)], 200, 0.95, 0.1, fraction, 7)["dissociation"]
        here = every["dissociation"][every["dissociation"]["fraction"] == fraction]
        pd.testing.assert_frame_equal(alone[columns], here[columns].reset_index(drop=True))
        np.testing.assert_allclose(here["p_holm"], holm(here["p_value"]))
    together = every["fractions"].query("fraction == 0.3")
    assert together.columns.isin(every["combined"]).all()
    pd.testing.assert_frame_equal(
        together.reset_index(drop=True), every["combined"][together.columns], check_dtype=False
    )
    alone = dissociation_tables([at_some(one, 0.3)], 200, 0.95, 0.1, 0.3, 7)
    pd.testing.assert_frame_equal(alone["combined"], every["combined"])


def test_area_is_the_mean_over_fractions_from_zero():
    one = at_fractions({0.1: 0.8, 0.2: 0.65, 0.4: 0.5}, np.random.default_rng(23), n=400)
    every = dissociation_tables([one], 200, 0.95, 0.1, 0.1, 7)
    d = every["fractions"].set_index(["task", "fraction"])["dissociation"]
    areas = every["areas"].set_index("task")
    for task in ("a", "b", "mean"):
        expected = np.trapezoid([0, d[task, 0.1], d[task, 0.2], d[task, 0.4]], [0, 0.1, 0.2, 0.4]) / 0.4
        assert areas.loc[task, "area"] == pytest.approx(expected)
    assert (areas["ci_low"] > 0).all() and (areas["p_value"] == 1 / 201).all()
    frozen = dissociation_tables(
        [one, replace(one, run=replace(one.run, method="frozen"))], 200, 0.95, 0.1, 0.1, 7
    )
    assert frozen["areas"]["method"].value_counts().to_dict() == {"tuned": 3, "frozen": 3}
    assert dissociation_tables([at_some(one, 0.1)], 200, 0.95, 0.1, 0.1, 7)[
        "areas"
    ].empty  # only one fraction


def test_holm_corrects_over_the_study_and_separately_over_means():
    rng = np.random.default_rng(11)
    runs = [pair(same=0.72, rng=rng, mixture=f"m{i}", seed=i % 2) for i in range(6)]
    result = study(*runs)
    np.testing.assert_allclose(result["dissociation"]["p_holm"], holm(result["dissociation"]["p_value"]))
    for _, rows in result["combined"].groupby(result["combined"]["task"] == "mean"):
        np.testing.assert_allclose(rows["p_holm"], holm(rows["p_value"]))


def test_regression_tasks():
    rng = np.random.default_rng(14)
    truth = rng.normal(size=300)
    noise = {"a": {"none": 0.3, "a": 2, "b": 0.8}, "b": {"none": 0.3, "a": 0.8, "b": 2}}
    predictions = {
        (task, mask): truth + s * rng.normal(size=300)
        for task, masks in noise.items()
        for mask, s in masks.items()
    }
    one = replace(pruned(predictions, truth), metrics={"a": "spearman", "b": "pearson"})
    table = study(one)["dissociation"]
    # correlation of x and x + s * noise: 1 / sqrt(1 + s^2)
    expected = (1 / np.sqrt(1 + 0.8**2) - 1 / np.sqrt(5)) * np.sqrt(1 + 0.3**2)
    assert (table["ci_low"] < expected).all() and (expected < table["ci_high"]).all()
    assert (table["p_value"] == 1 / 301).all()


@pytest.mark.parametrize("lost, message", [
    (True, "m/a.b/tuned/seed0/predictions.parquet: task 'b' lacks .* 'a'"),
    (False, "task 'b' lacks predictions of some examples under some masks"),
])  # fmt: skip
def test_missing_predictions_are_named(lost, message):
    one = pair(rng=np.random.default_rng(15))
    frame = one.predictions.copy()
    place = frame.eval("task == 'b' and pruned_for == 'a' and example == 3")
    frame.loc[place, "example"] = 3000
    with pytest.raises(DataError, match=message):
        study(replace(one, stored=frame[~place] if lost else frame))


def test_tables_fit_their_schemas_and_repeat_to_the_byte_in_any_order(tmp_path):
    runs = [pair(rng=np.random.default_rng(16), seed=seed) for seed in range(2)]
    shuffled = [replace(one, stored=one.predictions.sample(frac=1, random_state=0)) for one in runs[::-1]]
    for name, frame in study(*runs).items():
        tables.write(tmp_path / name, SCHEMAS[name], frame, {})
        assert len(tables.read(tmp_path / name)) == len(frame)
        assert len(frame) or name == "areas"  # only one fraction
    for name, frame in study(*shuffled).items():
        tables.write(tmp_path / "again", SCHEMAS[name], frame, {})
        assert (tmp_path / "again").read_bytes() == (tmp_path / name).read_bytes()
    assert all(frame.empty and list(frame) == list(SCHEMAS[name].columns) for name, frame in study().items())


def test_processes_and_other_runs_change_nothing(tmp_path):
    """Mixtures shared by two processes, one of them read from files, give the tables of one process."""
    rng = np.random.default_rng(0)
    seeds = [pair(rng=rng, n=60, seed=s, mixture=m) for m in ("x", "y") for s in range(3)]
    for i, one in enumerate(seeds):
        tables.write(
            tmp_path / f"{i}.parquet", SCHEMAS["predictions"], one.predictions.assign(probabilities=None), {}
        )
    stored = [Evaluation(one.run, one.metrics, str(tmp_path / f"{i}.parquet")) for i, one in enumerate(seeds)]
    settings = (100, 0.95, 0.1, FRACTION, 7)
    one, two = dissociation_tables(seeds, *settings), dissociation_tables(stored, *settings, processes=2)
    for name, frame in one.items():
        pd.testing.assert_frame_equal(frame, two[name])
    alone = dissociation_tables(seeds[:1], *settings)["dissociation"].drop(columns="p_holm")
    pd.testing.assert_frame_equal(alone, one["dissociation"].head(len(alone)).drop(columns="p_holm"))
    with pytest.raises(ValueError, match="apart"):
        dissociation_tables([seeds[0], seeds[3], seeds[1]], *settings)


def test_runs_on_other_examples_are_drawn_by_themselves():
    """Methods of a mixture need not be evaluated on the same examples; only their seeds must be."""
    rng = np.random.default_rng(0)
    one, other = (pair(rng=rng, n=n) for n in (60, 80))
    both = resample_runs([one, other], [FRACTION], 50, 0.95, 7)
    for together, run in zip(both, (one, other), strict=True):
        alone = resample_run(run, [FRACTION], 50, 0.95, 7)
        np.testing.assert_array_equal(together.bootstrap, alone.bootstrap)
        np.testing.assert_array_equal(together.null, alone.null)
