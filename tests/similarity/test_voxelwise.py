"""From vectors to voxels: folds, ridge, scores, tests, ceiling and selection, on synthetic brains."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.linear_model import LinearRegression
from sklearn.linear_model import Ridge as Reference

from headspec.similarity.brain.encoding import (
    analyse_encoding,
    analyse_voxels,
    p_value,
    shifted_sums,
    vector_ridge,
)
from headspec.similarity.brain.folds import contiguous, products, splits, train_on_all
from headspec.similarity.brain.regression import PENALTIES, Ridge, correlation, encode
from headspec.similarity.measures import Measure, by_subject, cnm, pairwise
from headspec.similarity.traits import encoding
from support.data.brains import code, smooth, subjects


def splits_of(n: int, folds: int = 5, nuisance: np.ndarray | None = None):
    return splits(range(n), np.empty((n, 0)) if nuisance is None else nuisance, folds)


def analyse(vectors, responses, nuisance=None, folds: int = 5, regression: str = "ridge"):
    """With every voxel selected, without reliability and ceiling."""
    n = len(next(iter(vectors.values())))
    rows = []
    for subject, each in responses.items():
        rows += itertools.product([subject], each.voxels, range(folds))
    voxels = pd.DataFrame(rows, columns=["subject", "voxel", "fold"])
    voxels = voxels.assign(reliability=np.nan, selected=True, ceiling=np.nan)
    return analyse_encoding(vectors, responses, voxels, splits_of(n, folds, nuisance), regression, 0)


# --- folds


@given(st.lists(st.integers(1, 9), min_size=2, max_size=30), st.integers(2, 10))
def test_folds_are_contiguous_and_keep_passages(sizes, folds):
    passages = np.repeat(np.arange(len(sizes)), sizes)
    if len(sizes) < folds:
        with pytest.raises(ValueError, match="expected at least"):
            contiguous(passages, folds)
        return
    fold = contiguous(passages, folds)
    assert (np.diff(fold) >= 0).all() and set(fold) == set(range(folds))
    assert all(len(set(fold[passages == p])) == 1 for p in passages)


def test_folds_are_equal_where_they_can_be():
    assert np.bincount(contiguous(range(627), 5)).tolist() == [125, 126, 125, 126, 125]
    assert np.bincount(contiguous(np.arange(384) // 4, 5)).tolist() == [76, 76, 80, 76, 76]
    assert contiguous(["a", "b", "a", "c", "b"], 3).tolist() == [0, 1, 0, 2, 1]


@pytest.mark.parametrize("offset", [0, 1e6, 1.6e9])
def test_nuisance_is_fitted_on_the_training_part_alone(offset):
    """Also large numbers, such as times in seconds since 1970."""
    rng = np.random.default_rng(0)
    nuisance = np.column_stack([offset + np.arange(60.0), rng.normal(size=60)])
    values = (np.arange(60.0)[:, None] + 5 * smooth(rng, (60, 7))).astype(np.float32)
    values[:, 3] = 2 * nuisance[:, 1] - 1
    split = splits_of(60, 5, nuisance)[1]
    train, test = split.standardised(values)
    fit = LinearRegression().fit(nuisance[split.train], values[split.train].astype(float))
    rest = values - fit.predict(nuisance)
    deviation = rest[split.train].std(axis=0)
    others = [0, 1, 2, 4, 5, 6]
    np.testing.assert_allclose(train[:, others], (rest[split.train] / deviation)[:, others], atol=2e-4)
    np.testing.assert_allclose(test[:, others], (rest[split.test] / deviation)[:, others], atol=2e-4)
    assert (train[:, 3] == 0).all() and (test[:, 3] == 0).all()
    assert split.freedom == 48 - 3


# --- regression


@pytest.mark.parametrize("d", [12, 90])
def test_ridge_with_one_penalty_is_that_of_scikit_learn(d, monkeypatch):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, d)), rng.normal(size=(60, 9))
    split = splits_of(60)[2]
    train, test = split.standardised(x)
    responses, _ = split.standardised(y)
    monkeypatch.setattr("headspec.similarity.brain.regression.PENALTIES", np.array([0.3]))
    ridge = Ridge.from_features(train, test, split.freedom)
    reference = Reference(alpha=float(ridge.penalties[0]), fit_intercept=False).fit(train, responses)
    np.testing.assert_allclose(ridge.predict(responses), reference.predict(test), atol=2e-5)
    scaled = x / x[split.train].std(axis=0)
    kernel = Ridge.from_gram(*split.gram(scaled @ scaled.T), split.freedom)
    np.testing.assert_allclose(kernel.predict(responses), reference.predict(test), atol=1e-4)
    weights = ridge.weights(responses @ responses.T)
    np.testing.assert_allclose(weights @ responses, ridge.predict(responses), atol=2e-5)


@pytest.mark.parametrize("d", [12, 90])
def test_penalties_agree_with_explicit_cross_validation(d):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, d)) * np.logspace(0, -2, d)
    y = x[:, :9] + np.linspace(0.1, 5, 9) * rng.normal(size=(60, 9))
    split = splits_of(60)[0]
    train, test = (part.astype(np.float64) for part in split.standardised(x))
    responses = split.standardised(y)[0].astype(np.float64)
    ridge = Ridge.from_features(train, test, split.freedom)
    scores = []
    for penalty in ridge.penalties:
        hat = train @ np.linalg.solve(train.T @ train + penalty * np.eye(d), train.T)
        residual = ((responses - hat @ responses) ** 2).sum(axis=0)
        scores.append(residual / (split.freedom - np.trace(hat)) ** 2)
    inside = (ridge.basis.T @ responses) ** 2
    gcv = ridge.gcv((responses**2).sum(axis=0), inside)
    np.testing.assert_allclose(gcv, scores, rtol=2e-2)
    best = np.argmin(scores, axis=0)
    assert len(set(best)) > 1 and 0 < best.max() < len(PENALTIES)
    for voxel, choice in enumerate(best):
        reference = Reference(alpha=ridge.penalties[choice], fit_intercept=False)
        expected = reference.fit(train, responses[:, voxel]).predict(test)
        np.testing.assert_allclose(ridge.predict(responses)[:, voxel], expected, atol=1e-3)


def test_networks_learn_what_is_not_linear(monkeypatch):
    monkeypatch.setattr("headspec.similarity.brain.regression.SEEDS", 1)
    x = smooth(np.random.default_rng(0), (200, 2))
    measured = subjects(np.stack([np.abs(x[:, 0]) - 0.8, x[:, 1]], axis=1))
    network, again, ridge = (
        analyse({"a": x}, measured, folds=2, regression=regression)[0]["r"]
        for regression in ("network", "network", "ridge")
    )
    assert (network > 0.8).all() and network.equals(again)
    assert ridge[0] < 0.4 and ridge[1] > 0.99


# --- scores


def test_correlation_is_pearson():
    a, b = np.random.default_rng(0).normal(3, size=(2, 30, 4)).astype(np.float32)
    a[:, 3] = 7
    expected = [stats.pearsonr(x, y)[0] for x, y in zip(a.T[:3], b.T[:3], strict=True)]
    np.testing.assert_allclose(correlation(a, b), [*expected, 0], atol=1e-6)


@given(st.integers(2, 9), st.integers(0, 2**32))
def test_sums_at_every_shift(n, seed):
    a, b = np.random.default_rng(seed).normal(size=(2, n, n))
    expected = [(a * np.roll(b, (-s, -s), (0, 1))).sum() for s in range(n)]
    np.testing.assert_allclose(shifted_sums(a, b), expected, atol=1e-9)


def test_scores_are_means_over_the_folds_of_a_voxel():
    rng = np.random.default_rng(0)
    x, y, folds = smooth(rng, (60, 6)), smooth(rng, (60, 4)), splits_of(60)
    ridges = [vector_ridge(x, split) for split in folds]
    selected = rng.random((5, 4)) < 0.6
    selected[:, 3] = False
    by_fold = np.full(selected.shape, np.nan)
    for row, ridge, split in zip(by_fold, ridges, folds, strict=True):
        train, test = split.standardised(y)
        row[:] = correlation(ridge.predict(train), test)
    expected = [by_fold[selected[:, voxel], voxel].mean() for voxel in range(3)]
    r = encode([ridges], folds, y, selected)[0]
    np.testing.assert_allclose(r, [*expected, np.nan], atol=1e-5)


def test_the_columns_of_the_summary():
    rng = np.random.default_rng(0)
    x = smooth(rng, (100, 8))
    responses = subjects(code(rng, x, 30) + smooth(rng, (100, 30)), smooth(rng, (100, 20)))
    encoding, summary = analyse({"a": x, "b": smooth(rng, (100, 8))}, responses)
    assert len(encoding) == 2 * (30 + 20) and (encoding["n_folds"] == 5).all()
    means = encoding.groupby(["task", "subject"])["r"].mean()
    for row in summary.itertuples():
        assert row.r == pytest.approx(means[row.task, row.subject])
    assert summary.set_index(["task", "subject"]).loc[("a", "s0"), "p_value"] == pytest.approx(1 / 100)


def test_tasks_that_share_a_code_are_more_similar():
    rng = np.random.default_rng(0)
    first, second = smooth(rng, (200, 10)), smooth(rng, (200, 10))
    values = [
        np.concatenate([code(rng, first, 40), code(rng, second, 40)], axis=1) + smooth(rng, (200, 80))
        for _ in range(3)
    ]
    vectors = {"a": code(rng, first, 32), "b": code(rng, first, 32), "c": code(rng, second, 32)}
    read = {"encoding": encoding(analyse(vectors, subjects(*values))[0], 0.3)}
    _, *of_subjects = by_subject({}, read).items()
    measure = {"cnm": Measure("encoding", cnm)}
    similarity = pd.concat([pairwise(*each, "abc", measure) for each in of_subjects])
    assert len(similarity) == 9
    means = similarity.groupby(["task_a", "task_b"])["similarity"].mean()
    assert means["a", "b"] > 0.95 and means["a", "c"] < 0.3 and means["b", "c"] < 0.3


@pytest.mark.parametrize("rho", [0.0, 0.7])
def test_noise_is_significant_as_often_as_it_should(rho):
    p, r = [], []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        shared = code(rng, smooth(rng, (75, 3), rho), 40)  # noise that voxels share
        folds = splits_of(75)
        y = train_on_all(folds[0].design).standardised(shared + smooth(rng, (75, 40), rho))[0]
        x = smooth(rng, (75, 12), rho)
        ridges = [vector_ridge(x, split) for split in folds]
        p.append(p_value(ridges, folds, products(y, train_on_all(folds[0].design))))
        r.append(encode([ridges], folds, y, np.ones((5, 40), dtype=bool)).mean())
    assert np.mean(np.array(p) <= 0.05) <= 0.11  # 5 of 100, plus more than two standard deviations
    assert stats.kstest(p, "uniform").pvalue > 0.01
    assert rho or abs(np.mean(r)) < 3 * np.std(r) / 10


def test_regressing_out_nuisance_removes_scores_that_rest_on_it():
    rng = np.random.default_rng(0)
    nuisance = smooth(rng, (150, 2))
    x = np.concatenate([nuisance, smooth(rng, (150, 6))], axis=1)
    responses = subjects(code(rng, nuisance, 40) + 0.5 * smooth(rng, (150, 40)))
    (_, before), (_, after) = (analyse({"a": x}, responses, each) for each in (None, nuisance))
    assert before["r"][0] > 0.6 and before["p_value"][0] <= 1 / 150 + 1e-9
    assert abs(after["r"][0]) < 0.1 and after["p_value"][0] > 0.05
    _, nothing = analyse({"a": nuisance}, responses, nuisance)
    assert nothing["r"][0] == 0 and nothing["p_value"][0] == 1


# --- ceiling and selection


@pytest.fixture(scope="module")
def three_brains():
    """Three subjects; the first 30 of 60 voxels share a code of 6 dimensions, with 0.7 of the variance."""
    rng = np.random.default_rng(0)
    shared = smooth(rng, (200, 6))
    values = []
    for _ in range(3):
        signal = np.sqrt(0.7) * code(rng, shared, 30) + np.sqrt(0.3) * smooth(rng, (200, 30))
        values.append(np.concatenate([signal, smooth(rng, (200, 30))], axis=1))
    return values


def test_ceiling_and_reliable_voxels(three_brains):
    voxels = analyse_voxels(subjects(*three_brains), range(200), np.empty((200, 0)), 5, True, 0)
    assert len(voxels) == 3 * 60 * 5
    signal = voxels["voxel"] < 30
    assert voxels[signal]["ceiling"].mean() == pytest.approx(np.sqrt(0.7), abs=0.12)
    assert abs(voxels[~signal]["ceiling"].mean()) < 0.05
    assert voxels[signal]["selected"].mean() > 0.95
    assert voxels[~signal]["selected"].mean() < 0.08


def test_noise_is_seldom_reliable():
    rng = np.random.default_rng(0)
    values = [smooth(rng, (120, 200), 0.6) for _ in range(3)]
    voxels = analyse_voxels(subjects(*values), range(120), np.empty((120, 0)), 3, True, 0)
    assert voxels["selected"].mean() < 0.05


@pytest.mark.slow
def test_held_out_responses_have_no_part_in_selection_and_prediction(three_brains):
    held_out = splits_of(200)[1].test
    changed = [values.copy() for values in three_brains]
    for values in changed:
        values[held_out] = np.random.default_rng(9).normal(size=(len(held_out), 60))
    columns = ["subject", "voxel", "reliability", "selected"]
    voxels, other = (
        analyse_voxels(subjects(*each), range(200), np.empty((200, 0)), 5, True, 0).query("fold == 1")
        for each in (three_brains, changed)
    )
    pd.testing.assert_frame_equal(voxels[columns], other[columns])
    assert not np.allclose(voxels["ceiling"], other["ceiling"])
    split = splits_of(200)[1]
    ridge = vector_ridge(smooth(np.random.default_rng(1), (200, 8)), split)
    one, two = (ridge.predict(split.standardised(each[0])[0]) for each in (three_brains, changed))
    np.testing.assert_array_equal(one, two)


def test_one_subject_has_no_ceiling(three_brains):
    voxels = analyse_voxels(subjects(three_brains[0]), range(200), np.empty((200, 0)), 5, False, 0)
    assert voxels["selected"].all() and voxels[["reliability", "ceiling"]].isna().all(axis=None)


@settings(max_examples=settings().max_examples // 10)
@given(st.floats(0.1, 100), st.floats(-50, 50))
def test_scores_do_not_depend_on_units(scale, offset):
    rng = np.random.default_rng(0)
    x = smooth(rng, (60, 6))
    y = code(rng, x, 5) + smooth(rng, (60, 5))
    one, _ = analyse({"a": x}, subjects(y))
    two, _ = analyse({"a": np.float32(scale) * x + np.float32(offset)}, subjects(np.float32(scale) * y - 3))
    np.testing.assert_allclose(one["r"], two["r"], atol=5e-3)
