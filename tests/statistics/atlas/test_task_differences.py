"""Differences of heads between tasks: closed forms, level of the test, coverage of intervals."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from headspec.config.runs import Run
from headspec.statistics.atlas.task_differences import PLAIN, SHARES, TASK_DIFFERENCES, task_differences
from headspec.statistics.resampling import holm

SHAPE = (3, 4)


def run(tasks: tuple[str, ...], seed: int = 0) -> Run:
    return Run(model="m", mixture="+".join(tasks), method="tuned", seed=seed, tasks=tasks)


def folds(values: dict[str, np.ndarray], measures: tuple[str, ...] = (*SHARES, *PLAIN)) -> pd.DataFrame:
    """Values (n, layers, heads) of each task, the same for all measures, in twenty folds."""
    frames = []
    for task, examples_of_task in values.items():
        means = examples_of_task.reshape(-1, 20, *SHAPE).mean(axis=0)
        fold, layer, head = np.indices(means.shape).reshape(3, -1)
        rows = {"task": task, "fold": fold, "layer": layer, "head": head, "value": means.ravel(), "n": 2}
        frames += [pd.DataFrame(rows | {"measure": measure}) for measure in measures]
    return pd.concat(frames, ignore_index=True)


def examples(rng: np.random.Generator, pattern: np.ndarray, n: int = 60) -> np.ndarray:
    """Positive values with means `pattern`, of which a few examples make most."""
    return pattern * rng.lognormal(-0.5, 1, (n, 1, 1)) * rng.lognormal(-0.5, 1, (n, *SHAPE))


def test_two_tasks_have_one_difference_of_shares_or_of_values():
    rng = np.random.default_rng(0)
    values = {"a": rng.random((40, *SHAPE)) + 1, "b": 10 * rng.random((40, *SHAPE)) + 1}
    runs = [(run(("a", "b")), folds(values))]
    runs[0][1].loc[runs[0][1]["measure"] == "confidence", "value"] *= 2
    table = task_differences(runs, 200, 0.95, 0)
    assert table.equals(task_differences(runs, 200, 0.95, 0))
    assert list(table.columns) == list(TASK_DIFFERENCES.columns) and len(table) == 4 * 12
    assert set(table["task"]) == {"a"} and set(table["against"]) == {"b"}
    means = {task: value.mean(axis=0).ravel() for task, value in values.items()}
    for measure, rows in table.groupby("measure"):
        double = 1 + (measure == "confidence")
        of = {task: mean / mean.sum() if measure in SHARES else mean * double for task, mean in means.items()}
        np.testing.assert_allclose(rows["value"], of["a"])
        np.testing.assert_allclose(rows["other"], of["b"])
        np.testing.assert_allclose(rows["difference"], of["a"] - of["b"])
        spread = (rows["ci_high"] - rows["difference"]) / t.ppf(0.975, 19)
        np.testing.assert_allclose(rows["p_value"], 2 * t.sf(np.abs(rows["difference"]) / spread, 19))
        np.testing.assert_allclose(rows["p_holm"], holm(rows["p_value"].to_numpy()))
    plain = table[table["measure"] == "confidence"]
    deviation = np.sqrt(sum(value.reshape(2, 20, *SHAPE).mean(axis=0).var(axis=0, ddof=1).ravel() / 20
                            for value in values.values()))  # fmt: skip
    reach = (plain["ci_high"] - plain["ci_low"]) / 2
    np.testing.assert_allclose(reach, 2 * 2.093 * deviation, rtol=0.25)  # t of 19 degrees of freedom


def test_three_tasks_have_a_difference_each_to_the_mean_of_the_others():
    rng = np.random.default_rng(1)
    values = {task: i + rng.random((40, *SHAPE)) for i, task in enumerate("abc")}
    table = task_differences([(run(("a", "b", "c")), folds(values))], 50, 0.95, 0)
    rows = table[(table["measure"] == "relevance") & (table["task"] == "b")]
    means = {task: value.mean(axis=0).ravel() for task, value in values.items()}
    np.testing.assert_allclose(rows["difference"], means["b"] - (means["a"] + means["c"]) / 2)
    assert set(table["task"]) == {"a", "b", "c"} and set(table["against"]) == {"others"}


def test_one_task_has_no_difference_and_equal_heads_none_that_is_clear():
    rng = np.random.default_rng(2)
    assert task_differences([(run(("a",)), folds({"a": rng.random((40, *SHAPE))}))], 50, 0.95, 0).empty
    alike = [(run(("a", "b")), folds(dict.fromkeys("ab", rng.random((40, *SHAPE))), PLAIN[:1]))]
    table = task_differences(alike, 50, 0.95, 0)  # tasks are resampled each for itself
    assert set(table["measure"]) == set(PLAIN[:1]) and (table["ci_low"] < table["ci_high"]).all()
    same = dict.fromkeys("ab", np.full((40, *SHAPE), 0.5))
    table = task_differences([(run(("a", "b")), folds(same))], 50, 0.95, 0)
    assert (table["p_holm"] == 1).all() and (table["difference"] == 0).all()


def test_a_clear_difference_is_found():
    rng = np.random.default_rng(3)
    pattern = np.ones(SHAPE)
    other = pattern.copy()
    other[1, 2] = 8
    values = {"a": examples(rng, pattern, 400), "b": examples(rng, 5 * other, 400)}
    table = task_differences([(run(("a", "b")), folds(values))], 200, 0.95, 0)
    rows = table[table["measure"] == "importance"].set_index(["layer", "head"])
    assert rows.loc[(1, 2), "p_holm"] < 0.001 and rows["difference"].idxmin() == (1, 2)
    assert (rows.drop(index=(1, 2))["difference"] > 0).all()  # what one head has more, others have less


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [1, 3])
def test_level_and_coverage_without_a_difference(seeds):
    """One task's values are five times as large as the other's, and skewed; the shares are the same."""
    rng, studies = np.random.default_rng(4), 40
    claimed, covered, rejected = [], [], []
    for _ in range(studies):
        pattern = rng.lognormal(0, 1, SHAPE)
        values = {"a": examples(rng, pattern), "b": examples(rng, 5 * pattern)}
        noise = [{t: v * rng.lognormal(0, 0.3, v.shape) for t, v in values.items()} for _ in range(seeds)]
        runs = [(run(("a", "b"), seed), folds(noisy, SHARES[:1])) for seed, noisy in enumerate(noise)]
        rows = task_differences(runs, 200, 0.95, 0)
        claimed.append(rows["p_holm"].min() < 0.05)
        covered.append(((rows["ci_low"] <= 0) & (rows["ci_high"] >= 0)).mean())
        rejected.append((rows["p_value"] <= 0.05).mean())
    assert np.mean(claimed) <= 0.15  # 5 %, and chance in forty studies
    assert 0.02 < np.mean(rejected) < 0.08
    assert 0.92 < np.mean(covered) < 0.99
