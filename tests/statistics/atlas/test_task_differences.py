"""Differences of heads between tasks: closed forms, level of the test, coverage of intervals."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from headspec.config.runs import Run
from headspec.statistics.atlas.measures import PLAIN, SHARES, TASK_DIFFERENCES, task_differences
from headspec.statistics.resampling import holm
from support.data.elements import elements

SHAPE = (3, 4)


def differences(
    *seeds: dict[str, np.ndarray], measures=(*SHARES, *PLAIN), resamples: int = 50, **doubled: int
) -> pd.DataFrame:
    """The table of values (n, layers, heads) by task, the same for all measures, in twenty folds."""
    runs = []
    for seed, values in enumerate(seeds):
        folds = {task: each.reshape(-1, 20, *SHAPE).mean(axis=0) for task, each in values.items()}
        frames = [
            elements("fold", "layer", "head", value=means * doubled.get(measure, 1)).assign(
                task=task, measure=measure, n=2
            )
            for task, means in folds.items()
            for measure in measures
        ]
        run = Run("m", "+".join(values), tuple(values), "tuned", seed)
        runs.append((run, pd.concat(frames, ignore_index=True)))
    return task_differences(runs, resamples, 0.95, 0)


def examples(rng: np.random.Generator, pattern: np.ndarray, n: int = 60) -> np.ndarray:
    """Positive values with means `pattern`, of which a few examples make most."""
    return pattern * rng.lognormal(-0.5, 1, (n, 1, 1)) * rng.lognormal(-0.5, 1, (n, *SHAPE))


def test_two_tasks_have_one_difference_of_shares_or_of_values():
    rng = np.random.default_rng(0)
    values = {"a": rng.random((40, *SHAPE)) + 1, "b": 10 * rng.random((40, *SHAPE)) + 1}
    table = differences(values, resamples=200, confidence=2)
    assert table.equals(differences(values, resamples=200, confidence=2))
    assert list(table.columns) == list(TASK_DIFFERENCES.columns) and len(table) == 4 * 12
    assert set(table["task"]) == {"a"} and set(table["against"]) == {"b"}
    means = np.array([value.mean(axis=0).ravel() for value in values.values()])
    for measure, rows in table.groupby("measure"):
        double = 1 + (measure == "confidence")
        a, b = means / means.sum(axis=1, keepdims=True) if measure in SHARES else means * double
        np.testing.assert_allclose(rows[["value", "other", "difference"]].T, [a, b, a - b])
        spread = (rows["ci_high"] - rows["difference"]) / t.ppf(0.975, 19)
        np.testing.assert_allclose(rows["p_value"], 2 * t.sf(np.abs(rows["difference"]) / spread, 19))
        np.testing.assert_allclose(rows["p_holm"], holm(rows["p_value"].to_numpy()))
    plain = table[table["measure"] == "confidence"]
    folds = np.array([value.reshape(2, 20, *SHAPE).mean(axis=0) for value in values.values()])
    deviation = np.sqrt((folds.var(axis=1, ddof=1) / 20).sum(axis=0)).ravel()
    reach = (plain["ci_high"] - plain["ci_low"]) / 2
    np.testing.assert_allclose(reach, 2 * 2.093 * deviation, rtol=0.25)  # t of 19 degrees of freedom


def test_three_tasks_have_a_difference_each_to_the_mean_of_the_others():
    rng = np.random.default_rng(1)
    values = {task: i + rng.random((40, *SHAPE)) for i, task in enumerate("abc")}
    table = differences(values)
    rows = table[(table["measure"] == "relevance") & (table["task"] == "b")]
    a, b, c = (value.mean(axis=0).ravel() for value in values.values())
    np.testing.assert_allclose(rows["difference"], b - (a + c) / 2)
    assert set(table["task"]) == {"a", "b", "c"} and set(table["against"]) == {"others"}


def test_one_task_has_no_difference_and_equal_heads_none_that_is_clear():
    value = np.random.default_rng(2).random((40, *SHAPE))
    assert differences({"a": value}).empty
    table = differences(dict.fromkeys("ab", value), measures=PLAIN[:1])  # tasks are resampled apart
    assert set(table["measure"]) == set(PLAIN[:1]) and (table["ci_low"] < table["ci_high"]).all()
    table = differences(dict.fromkeys("ab", np.full((40, *SHAPE), 0.5)))
    assert (table["p_holm"] == 1).all() and (table["difference"] == 0).all()


def test_a_clear_difference_is_found():
    rng, other = np.random.default_rng(3), np.ones(SHAPE)
    other[1, 2] = 8
    values = {"a": examples(rng, np.ones(SHAPE), 400), "b": examples(rng, 5 * other, 400)}
    table = differences(values, resamples=200)
    rows = table[table["measure"] == "importance"].set_index(["layer", "head"])
    assert rows.loc[(1, 2), "p_holm"] < 0.001 and rows["difference"].idxmin() == (1, 2)
    assert (rows.drop(index=(1, 2))["difference"] > 0).all()  # what one head has more, others have less


@pytest.mark.thorough
@pytest.mark.parametrize("seeds", [1, 3])
def test_level_and_coverage_without_a_difference(seeds):
    """One task's values are five times as large as the other's, and skewed; the shares are the same."""
    rng, claimed, covered, rejected = np.random.default_rng(4), [], [], []
    for _ in range(40):
        pattern = rng.lognormal(0, 1, SHAPE)
        values = {"a": examples(rng, pattern), "b": examples(rng, 5 * pattern)}
        noise = [{t: v * rng.lognormal(0, 0.3, v.shape) for t, v in values.items()} for _ in range(seeds)]
        rows = differences(*noise, measures=SHARES[:1], resamples=200)
        claimed.append(rows["p_holm"].min() < 0.05)
        covered.append(((rows["ci_low"] <= 0) & (rows["ci_high"] >= 0)).mean())
        rejected.append((rows["p_value"] <= 0.05).mean())
    assert np.mean(claimed) <= 0.15  # 5 %, and chance in forty studies
    assert 0.02 < np.mean(rejected) < 0.08
    assert 0.92 < np.mean(covered) < 0.99
