"""Gains predicted without a task: against loops, planted predictors, levels under simulated nulls."""

import itertools
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy.stats import rankdata, spearmanr, t

from headspec.statistics.grouping import prediction
from headspec.statistics.grouping.gains import Gains
from headspec.statistics.grouping.prediction import ALL, BASELINE, BOTH, predict
from headspec.statistics.grouping.ridge import PENALTIES, LeaveTasksOut, directed_pairs, standardised

K = 7
SOURCE, TARGET = directed_pairs(K)


def measured(gain: np.ndarray) -> Gains:
    gain = gain.copy()
    np.fill_diagonal(gain, np.nan)
    return Gains(tuple(f"t{task}" for task in range(len(gain))), gain, gain - 1, gain + 1, 0.5, ())


def by_hand(x, y, out, effects):
    """Ridge without the tasks `out`, by explicit loops: predictions of all pairs."""
    ones = np.ones((len(y), 1))
    base = np.hstack([ones, np.eye(K)[SOURCE], np.eye(K)[TARGET]]) if effects else ones

    def fitted(tasks, penalty):
        train = ~np.isin(SOURCE, tasks) & ~np.isin(TARGET, tasks) & ~np.isnan(y)
        columns = base[train]
        solved = np.linalg.lstsq(columns, np.column_stack([x[train], y[train]]), rcond=None)[0]
        rest = np.column_stack([x[train], y[train]]) - columns @ solved
        a, b, n = rest[:, :-1], rest[:, -1], train.sum()
        w = np.linalg.solve(a.T @ a / n + penalty * np.eye(x.shape[1]), a.T @ b / n)
        if not effects:
            return y[train].mean() + (x - x[train].mean(axis=0)) @ w
        known = [task for task in range(K) if task not in tasks]
        values = []
        for column in (*x.T, y):
            fit = np.linalg.lstsq(columns, column[train], rcond=None)[0]
            s, t = fit[1 : K + 1].copy(), fit[K + 1 :].copy()
            level = fit[0] + s[known].mean() + t[known].mean()
            s, t = s - s[known].mean(), t - t[known].mean()
            s[list(tasks)] = t[list(tasks)] = 0
            values.append(level + s[SOURCE] + t[TARGET])
        return values[-1] + (x - np.column_stack(values[:-1])) @ w

    loss = np.zeros(len(PENALTIES))
    for task in set(range(K)) - set(out):
        for number, penalty in enumerate(PENALTIES):
            judged = ~np.isin(SOURCE, out) & ~np.isin(TARGET, out) & ((task == SOURCE) | (task == TARGET))
            loss[number] += np.nansum((y - fitted((*out, task), penalty))[judged] ** 2)
    return fitted(out, PENALTIES[loss.argmin()])


@pytest.mark.parametrize(("held_out", "effects"), [(1, False), (1, True), (2, False)])
def test_regressions_are_those_of_loops(held_out, effects):
    rng = np.random.default_rng(0)
    x = standardised(rng.normal(size=(3, K * (K - 1))) + [[0], [5], [0]], effects)
    y = x[0] + rng.normal(size=K * (K - 1)) + rng.normal(size=K)[SOURCE] + 2
    if not effects:
        y[3] = np.nan
    model = LeaveTasksOut(y, K, held_out, effects)
    each, together = model.changes(x, np.arange(len(y))[None])
    for fold, out in ((0, (0, 1)[:held_out]), (-1, tuple(range(K))[-held_out:])):
        pairs = model.pairs[fold]
        assert np.isin(np.column_stack([SOURCE, TARGET])[pairs], out).sum(axis=1).min() == held_out
        for change, columns in ((together[0, fold], x), (each[1, 0, fold], x[1:2])):
            expected = by_hand(columns.T, y, out, effects)[pairs]
            assert model.base[fold] + change == pytest.approx(expected)


def test_memory_does_not_grow_with_the_sets_of_tasks_that_are_left_out():
    """Sixteen tasks have 680 sets of one to three; matrices of pairs for each would take 300 MB."""
    k, rng = 16, np.random.default_rng(9)
    gains, features = rng.normal(size=(2, k * (k - 1)))
    features = standardised(features[None], False)
    relabelled = np.tile(np.arange(k * (k - 1)), (40, 1))
    tracemalloc.start()
    try:
        LeaveTasksOut(gains, k, 2, effects=False).changes(features, relabelled)
        assert tracemalloc.get_traced_memory()[1] < 120e6
    finally:
        tracemalloc.stop()


def test_a_planted_predictor_is_found_and_its_scores_are_those_of_the_definition():
    rng = np.random.default_rng(1)
    features = {name: rng.normal(size=(10, 10)) for name in ("good", "noise")}
    gain = features["good"] + 0.5 * rng.normal(size=(10, 10))
    table, scores = predict(measured(gain), features, "m", 0)
    row = scores.set_index(["predictor", "held_out"])
    for held_out in (1, 2):
        assert row.loc[("good", held_out), "spearman"] > 0.7 and row.loc[("good", held_out), "p_holm"] < 0.05
        assert row.loc[("noise", held_out), "p_value"] > 0.05
    assert row.loc[("good", 1), "p_value"] == 1 / 1000  # the tasks as they are count
    assert row.loc[(BOTH, 1), "p_value"] < 0.05 and row.loc[(BOTH, 1), "over_baseline"] > 0
    assert row.loc[("good", 1), "right_side"] > 0.75 and row.loc[("good", 1), "error_ratio"] < 0.7
    assert row.loc[("good", 2), ["spearman_low", "spearman_high"]].isna().all()
    assert (table.groupby(["predictor", "held_out"]).size() == 90).all() and table["predicted"].notna().all()
    assert scores["model"].eq("m").all() and scores["reliability"].eq(0.5).all()
    one = table[table["predictor"].eq("good") & table["held_out"].eq(1)].set_index(["source", "target"])
    assert one["gain"].to_dict() == {(f"t{a}", f"t{b}"): gain[a, b] for a, b in np.ndindex(10, 10) if a != b}
    # a slope of one sign everywhere: within a task, ranks of predictions are those of the feature
    alike = features["good"]

    def within(tasks):
        """Mean correlation of ranks among all other tasks, of and with these tasks."""
        found = []
        for a, (x, y) in itertools.product(tasks, ((alike, gain), (alike.T, gain.T))):
            others = np.flatnonzero(np.arange(10) != a)
            ranks = [rankdata(values[a, others])[np.isin(others, tasks)] for values in (x, y)]
            found.append(np.corrcoef(ranks)[0, 1])
        return np.mean(found)

    every = list(range(10))
    without = np.array([within([task for task in every if task != left]) for left in every])
    error = np.sqrt(9 * without.var())  # of the jackknife
    expected = [within(every), *t.interval(0.95, 9, within(every), error)]
    assert row.loc[("good", 1), ["spearman", "spearman_low", "spearman_high"]].tolist() == pytest.approx(
        expected
    )


def test_scores_of_folds_are_those_of_loops():
    """Each fold predicts what its training pairs lack; one gain is unknown."""
    rng = np.random.default_rng(4)
    feature = rng.normal(size=(K, K))
    gain = 0.3 + feature + 1.5 * rng.normal(size=(K, K))
    gain[2, 3] = np.nan
    x, y = feature[SOURCE, TARGET], gain[SOURCE, TARGET]
    known = ~np.isnan(y)
    scaled = (x - x.mean())[:, None] / x.std()
    table, scores = predict(measured(gain), {"one": feature}, "m", 0)
    row = scores.set_index(["predictor", "held_out"])
    for held_out in (1, 2):
        every, fits, means = [], [], []
        for out in itertools.combinations(range(K), held_out):
            left = [np.isin(pairs, out) for pairs in (SOURCE, TARGET)]
            judged = left[0] | left[1] if held_out == 1 else left[0] & left[1]
            every.append(np.flatnonzero(judged))
            fits.append(by_hand(scaled, y, out, False)[judged])
            means.append(np.full(judged.sum(), y[~left[0] & ~left[1] & known].mean()))
        pair, fit, mean = map(np.concatenate, (every, fits, means))
        found = table[table["predictor"].eq("one") & table["held_out"].eq(held_out)]
        np.testing.assert_allclose(found["predicted"], pd.Series(fit).groupby(pair).mean())
        pair, fit, mean = (values[known[pair]] for values in (pair, fit, mean))
        right = np.mean(np.sign(fit) == np.sign(y[pair]))
        ratio = np.sum((y[pair] - fit) ** 2) / np.sum((y[pair] - mean) ** 2)
        found = row.loc[("one", held_out), ["right_side", "error_ratio"]]
        assert found.tolist() == pytest.approx([right, ratio])
    assert row.loc[("one", 2), "spearman"] == pytest.approx(spearmanr(fit - mean, y[pair] - mean).statistic)
    over = row.loc[("one", 1), "spearman"] - row.loc[(BASELINE, 1), "spearman"]
    assert row.loc[("one", 1), "over_baseline"] == pytest.approx(over)
    assert abs(row.loc[("one", 1), "null_mean"]) < 0.1
    # the 95 % quantile of relabellings, and .84 standard deviations
    assert row.loc[("one", 1), "detectable"] == pytest.approx((1.645 + 0.842) * 37**-0.5, rel=0.3)


def test_a_predictor_of_effects_of_tasks_adds_nothing_to_the_baseline():
    rng = np.random.default_rng(2)
    source, target = rng.normal(size=(2, 8))
    gain = source[:, None] + target + 0.1 * rng.normal(size=(8, 8))
    table, scores = predict(measured(gain), {"effects": source[:, None] + target}, "m", 0)
    row = scores.set_index(["predictor", "held_out"])
    assert row.loc[("effects", 1), "p_value"] < 0.05 and row.loc[(BASELINE, 1), "spearman"] > 0.8
    assert np.isnan(row.loc[(BOTH, 1), "spearman"])  # nothing is left of the feature
    assert table[table["predictor"] == BOTH]["predicted"].isna().all()


def test_predictors_without_values_and_unknown_gains():
    rng = np.random.default_rng(3)
    features = {name: rng.normal(size=(6, 6)) for name in ("one", "two", "holes")} | {"same": np.ones((6, 6))}
    features["holes"][0, 1] = np.nan
    gain = rng.normal(size=(6, 6))
    gain[2, 3] = np.nan
    table, scores = predict(measured(gain), features, "m", 0)
    for frame, column in ((scores, "spearman"), (table, "predicted")):
        assert (frame[column].isna() == frame["predictor"].isin(["holes", "same"])).all()
    assert (scores["n_gains"] == 29).all()
    fewer = {name: features[name] for name in ("one", "two")}
    again = predict(measured(gain), fewer, "m", 0)[1]
    assert again.set_index("predictor").loc[ALL].equals(scores.set_index("predictor").loc[ALL])


def test_few_tasks_have_no_scores():
    table, scores = predict(measured(np.ones((4, 4))), {"one": np.eye(4)}, "m", 0)
    assert scores["spearman"].isna().all() and table["predicted"].isna().all()
    assert scores["n_tasks"].eq(4).all()
    names = predict(measured(np.ones((6, 6))), {}, "m", 0)[1]["predictor"]
    assert names.tolist() == [ALL, BASELINE, BOTH, ALL]


def simulated(rng, strength, related):
    """Gains and two measures of eight tasks, all with strong effects of tasks; these may be `related`."""
    shape, own = (8, 8), rng.normal(size=(2, 8))
    effects = 2 * (own[0][:, None] + own[1])
    other = 2 * (rng.normal(size=8)[:, None] + rng.normal(size=8))
    alike = rng.normal(size=shape)
    features = {"alike": alike + (effects if related else other), "noise": rng.normal(size=shape) + other.T}
    alone = rng.normal(size=8)
    return measured(effects + strength * alike + rng.normal(size=shape) - alone), features


@pytest.mark.thorough
@pytest.mark.parametrize("related", [False, True])
def test_measures_that_add_nothing_to_effects_of_tasks_are_found_at_the_level(monkeypatch, related):
    """Of 200 tests at 0.05, 0.005 to 0.1 reject, three standard errors from it."""
    monkeypatch.setattr(prediction, "RELABELLINGS", 99)
    rng = np.random.default_rng(5)
    scores = [predict(*simulated(rng, 0.0, related), "m", study)[1] for study in range(200)]
    p = pd.concat(scores).set_index(["predictor", "held_out"])["p_value"]
    for name in [(BOTH, 1)] if related else [(BOTH, 1), (ALL, 1), (ALL, 2), ("noise", 1), ("alike", 2)]:
        assert 0.005 <= (p[name] <= 0.05).mean() <= 0.1, name


@pytest.mark.thorough
def test_measures_that_add_something_are_found(monkeypatch):
    """At least three of four times where the mean correlation is what is called detectable."""
    monkeypatch.setattr(prediction, "RELABELLINGS", 99)
    rng = np.random.default_rng(6)
    scores = pd.concat([predict(*simulated(rng, 1.0, True), "m", study)[1] for study in range(60)])
    both = scores[scores["predictor"] == BOTH]
    assert both["spearman"].mean() > both["detectable"].mean() and (both["p_value"] <= 0.05).mean() > 0.7
