"""Verdicts on listed heads: closed forms, levels under simulated nulls, power."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from headspec.errors import DataError
from headspec.statistics.dissociation.head_lists import _columns, _Scores, head_lists, rank_p
from headspec.statistics.dissociation.pruned import PrunedPredictions
from headspec.statistics.resampling import holm
from support.data.evaluations import evaluated

TASKS = ("a", "b")


def evaluation(
    rng, accuracy, seed: int = 0, n: int = 200, common=None, mask_noise: float = 0.0
) -> PrunedPredictions:
    """A run of {task: {(pruned, draw): accuracy}}; half of how difficult examples are is `common` (k, n).

    Whether an example is right is the same under all masks, except for `mask_noise`.
    """
    predictions = {}
    label = np.arange(n) % 2
    own = rng.normal(size=(len(accuracy), n))
    difficulties = own + (rng.normal(size=own.shape) if common is None else common)
    for (task, levels), difficulty in zip(accuracy.items(), difficulties, strict=True):
        for (pruned, draw), p in levels.items():
            under = difficulty + mask_noise * rng.normal(size=n)
            right = norm.cdf(under / np.sqrt(2 + mask_noise**2)) < p
            predictions[pruned, draw, task] = np.where(right, label, 1 - label)
    one = evaluated(["pruned", "draw", "task"], predictions, label, model="bert", seed=seed)
    return replace(one, stored=one.read().assign(heads="mine", n_pruned=4))


def masks(base: float, listed: float, shared: float, random) -> dict:
    drawn = {("random", i): p for i, p in enumerate(random)}
    return {("none", None): base, ("listed", None): listed, ("shared", None): shared} | drawn


def value(one: PrunedPredictions, task: str, pruned: str) -> np.ndarray:
    """Accuracies (draws,)."""
    rows = one.read()[(one.read()["task"] == task) & (one.read()["pruned"] == pruned)]
    return (rows["prediction"] == rows["label"]).groupby(rows["draw"].fillna(0)).mean().to_numpy()


def test_columns_are_what_they_say():
    rng = np.random.default_rng(0)
    accuracy = {"a": masks(0.9, 0.6, 0.7, [0.85, 0.8, 0.88]), "b": masks(0.8, 0.75, 0.6, [0.8, 0.7, 0.75])}
    runs = [evaluation(rng, accuracy, seed) for seed in range(3)]
    table, gains = head_lists(runs, 100, 0.95, 7).set_index("task"), {}
    for task in TASKS:
        row = table.loc[task]
        base, listed, shared, draws = (
            np.array([value(run, task, pruned) for run in runs])
            for pruned in ("none", "listed", "shared", "random")
        )  # (seeds, draws)
        gains[task] = ((listed - shared) / base).mean()
        draws = draws.mean(axis=0)
        expected = [base.mean(), listed.mean(), shared.mean(), draws.mean(), draws.min(), draws.max()]
        columns = ["base", "value", "shared", "random", "draws_low", "draws_high"]
        assert row[columns].tolist() == pytest.approx(expected)
        assert row["harm"] == pytest.approx(draws.mean() - listed.mean())
        assert row["p_value"] == (1 + (draws <= row["value"]).sum()) / 4
    for task, other in (TASKS, TASKS[::-1]):
        assert table.loc[task, ["own", "others"]].tolist() == pytest.approx([-gains[task], gains[other]])
    assert table.loc["a", "own_low"] < table.loc["a", "own"] < table.loc["a", "own_high"]
    for name in ("p_specific", "p_specific_seeds"):
        assert (table[name] < 1).tolist() == [True, False]
    assert set(table["ci_over"]) == {"seeds and examples"} and set(table["n_seeds"]) == {3}


@pytest.mark.parametrize(
    ("a", "b", "verdicts"),
    [
        # the list costs a alone; the shared heads cost both
        ((0.9, 0.65, 0.75), (0.9, 0.88, 0.65), ["specific", "neither"]),
        # the list is as bad as the shared heads, for both
        ((0.9, 0.6, 0.6), (0.9, 0.6, 0.6), ["important", "important"]),
        # a is the more fragile, whatever is pruned
        ((0.9, 0.4, 0.4), (0.9, 0.7, 0.7), ["important", "important"]),
        ((0.9, 0.88, 0.6), (0.9, 0.88, 0.6), ["neither", "neither"]),
        # it costs a less than the shared heads do, and b much less
        ((0.9, 0.75, 0.65), (0.9, 0.86, 0.6), ["important", "neither"]),
        # it costs a more than the shared heads do, and b, too
        ((0.9, 0.65, 0.8), (0.9, 0.65, 0.7), ["important", "important"]),
        # with either, a is at chance
        ((0.9, 0.5, 0.5), (0.9, 0.86, 0.62), ["important", "neither"]),
        ((0.9, 0.4, 0.7), (0.9, 0.86, 0.62), ["important", "neither"]),
        # the unpruned model has learnt nothing of a
        ((0.5, 0.3, 0.4), (0.9, 0.65, 0.65), ["neither", "important"]),
    ],
)
@pytest.mark.parametrize("seeds", [1, 3])
def test_verdicts(a, b, verdicts, seeds):
    rng = np.random.default_rng(1)
    random = rng.normal(-0.03, 0.02, 20)
    accuracy = {"a": masks(*a, a[0] + random), "b": masks(*b, b[0] + random)}
    table = head_lists([evaluation(rng, accuracy, s, 600) for s in range(seeds)], 200, 0.95, 0)
    assert table["verdict"].tolist() == verdicts


@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize("base", [-0.1, 0.0, 0.02])
def test_a_task_that_was_not_learnt_has_no_part_in_those_of_others(base, seeds):
    """In metrics that can be 0 and below, also in a resample."""
    rng = np.random.default_rng(5)
    values = rng.uniform(0.2, 0.9, (seeds, 3, 4))
    bootstrap = values + rng.normal(0, 0.01, (200, seeds, 3, 4))
    place = int(rng.integers(4))
    values[:, 0, place] = base
    bootstrap[:, :, 0, place] = base + np.linspace(-0.05, 0.05, 200)[:, None]
    columns, rest = (
        _columns([
            _Scores(values[i][:, kept], bootstrap[:, i][..., kept], rng.random((5, len(kept))),
                    np.zeros((3, len(kept)), bool), np.zeros(len(kept), bool))
            for i in range(seeds)
        ], 0.95)
        for kept in (np.arange(4), np.delete(np.arange(4), place))
    )  # fmt: skip
    names = ["own", "own_low", "own_high", "others", "others_low", "others_high", "p_specific"]
    for name in [*names, "p_specific_seeds"] if seeds > 2 else names:
        np.testing.assert_array_equal(np.delete(columns[name], place), rest[name])
        assert np.isfinite(rest[name]).all()
    assert np.isnan(columns["own"][place]) == (base <= 0) and np.isfinite(columns["others"][place])


def test_importance_takes_as_many_draws_as_its_level():
    rng = np.random.default_rng(0)
    for draws, verdict in ((18, "neither"), (19, "important")):
        accuracy = {t: masks(0.9, 0.6, 0.6, rng.normal(0.87, 0.02, draws)) for t in TASKS}
        assert set(head_lists([evaluation(rng, accuracy)], 50, 0.95, 0)["verdict"]) == {verdict}


def test_lists_are_ranked_together():
    """The step-down procedure in closed form: a column counts against those that harm no more than it."""
    metrics = np.array([[0.2, 0.6, 0.9], [0.9, 0.5, 0.8], [0.8, 0.9, 0.85], [0.85, 0.8, 0.7]])
    p, corrected = rank_p(metrics)
    assert p.tolist() == [0.25, 0.5, 1]
    z = (metrics.mean(axis=0) - metrics) / metrics.std(axis=0)
    assert z[0, 0] > z[0, 1] > z[0, 2]
    first = (z.max(axis=1) >= z[0, 0]).mean()
    second = max(first, (z[:, 1:].max(axis=1) >= z[0, 1]).mean())
    assert corrected.tolist() == [first, second, 1] and first < second
    assert rank_p(np.full((5, 2), 0.3))[0].tolist() == [1, 1]
    both = rank_p(np.hstack([metrics, metrics + 0.1]))[1]  # the same columns twice cost nothing
    np.testing.assert_allclose(both, [*corrected, *corrected])


def test_lists_and_tasks_of_a_mixture_are_one_family():
    rng = np.random.default_rng(6)
    accuracy = {t: masks(0.9, 0.6, 0.75, rng.normal(0.85, 0.03, 20)) for t in TASKS}
    one, other = (evaluation(rng, accuracy | own) for own in ({}, {"a": masks(0.9, 0.8, 0.8, [0.8] * 20)}))
    both = pd.concat([one.read(), other.read().assign(heads="theirs")])
    table = head_lists([replace(one, stored=both)], 100, 0.95, 0)
    assert table["heads"].tolist() == ["mine", "mine", "theirs", "theirs"]
    under = [
        np.concatenate([value(run, task, name) for name in ("listed", "random")])
        for run in (one, other)
        for task in TASKS
    ]
    np.testing.assert_allclose(table[["p_value", "p_corrected"]].T, rank_p(np.transpose(under)))
    np.testing.assert_allclose(table["p_specific_holm"], holm(table["p_specific"]))
    assert table[["p_specific_seeds", "p_specific_seeds_holm"]].isna().all(axis=None)  # of one seed


def judged(rng, accuracy, seeds: int, study: int, n: int = 150) -> pd.DataFrame:
    """Verdicts on one list, from seeds that find the same examples difficult in part."""
    common = rng.normal(size=(len(accuracy), n))
    runs = [evaluation(rng, accuracy, seed, n, common, 0.7) for seed in range(seeds)]
    return head_lists(runs, 120, 0.95, study)


@pytest.mark.thorough
def test_lists_like_random_ones_are_rarely_harmful():
    """Few heads matter, to six tasks: the list has them as seldom as random ones."""
    rng, p, important = np.random.default_rng(2), [], 0
    studies, draws = 200, 40
    for study in range(studies):
        rare = np.where(rng.random((draws + 1, 6)) < 0.04, 0.3, 0.0)
        effects = 0.8 - rare - np.abs(rng.normal(0, 0.02, rare.shape))
        accuracy = {
            t: masks(0.85, each[0], 0.6, each[1:]) for t, each in zip("abcdef", effects.T, strict=True)
        }
        table = judged(rng, accuracy, 1, study, 100)
        p.extend(table["p_value"])
        important += (table["verdict"] != "neither").any()
    for level in (0.025, 0.05, 0.2):
        assert np.mean(np.array(p) <= level) <= level + 3 * np.sqrt(level / len(p))
    assert np.mean(np.array(p) <= 0.2) > 0.12  # those of equal metrics are larger
    assert important / studies <= 0.05 + 2 * np.sqrt(0.05 / studies)


@pytest.mark.thorough
@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize("others", [0.7, 0.85])
def test_important_lists_are_rarely_specific_to_one_of_six_tasks(seeds, others):
    """The list costs all tasks as much as the shared heads, or one more and the others as much."""
    rng, specific, studies = np.random.default_rng(4), 0, 40
    for study in range(studies):
        random = {t: rng.normal(0.88, 0.01, 20) for t in "abcdef"}
        accuracy = {t: masks(0.9, 0.7, 0.7 if t > "a" else others, random[t]) for t in random}
        table = judged(rng, accuracy, seeds, study, 100)
        assert (table["verdict"] != "neither").any()
        specific += (table["verdict"] == "specific").any()
    assert specific / studies <= 0.05 + 2 * np.sqrt(0.05 / studies)


@pytest.mark.thorough
@pytest.mark.parametrize("seeds", [1, 3])
def test_intervals_of_both_parts_cover(seeds):
    """0, where the list and the shared heads cost both tasks as much."""
    rng, covered, studies = np.random.default_rng(3), [], 150
    for study in range(studies):
        accuracy = {t: masks(0.8, 0.65, 0.65, [0.8, 0.78]) for t in TASKS}
        row = judged(rng, accuracy, seeds, study).iloc[0]
        covered.append([row[f"{part}_low"] <= 0 <= row[f"{part}_high"] for part in ("own", "others")])
    low, high = (0.91, 0.985) if seeds == 1 else (0.91, 0.995)  # seeds that share little: conservative
    assert all(low <= share <= high for share in np.mean(covered, axis=0))


def test_a_table_that_lacks_a_mask_is_refused():
    one = evaluation(np.random.default_rng(0), {t: masks(0.9, 0.8, 0.7, [0.8, 0.85]) for t in TASKS})
    rows = one.read()
    for lacking in (rows["pruned"] != "shared", rows.index != 5):
        with pytest.raises(DataError, match="listed.parquet: task 'a' lacks predictions for the list 'mine'"):
            head_lists([replace(one, stored=rows[lacking])], 20, 0.95, 0)
