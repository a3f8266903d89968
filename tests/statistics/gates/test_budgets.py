"""Pruning methods to keep a number of heads: pairing, common examples, level and coverage."""

import itertools

import numpy as np
import pandas as pd
import pytest

from headspec.config.runs import PrunedRun, Run
from headspec.statistics.budgets import Counts, budgets
from headspec.statistics.resampling import holm

METRICS = {"a": ["accuracy"], "b": ["accuracy", "f1"]}


def cell(seed: int, method: str, fraction: float | None, tasks=("a", "b")) -> PrunedRun:
    return PrunedRun(Run("m", "+".join(tasks), tuple(tasks), "tuned", seed), method, "shared", fraction)


def evaluation(right: dict[str, np.ndarray], label: dict[str, np.ndarray]) -> pd.DataFrame:
    """Predictions that are right where asked, in order of examples."""
    return pd.concat(
        [
            pd.DataFrame(
                {"task": task, "example": np.arange(len(label[task])), "label": label[task],
                 "prediction": np.where(of_task, label[task], 1 - label[task])}
            )
            for task, of_task in right.items()
        ],
        ignore_index=True,
    )  # fmt: skip


def table(frames: dict[PrunedRun, pd.DataFrame], resamples: int = 400, metrics=METRICS) -> pd.DataFrame:
    """Missing `against` and fractions are None."""
    heads = {of: Counts(5.0 + of.run.seed, 9.0, of.run.seed == 2) for of in frames}
    found = budgets(list(frames), frames.__getitem__, heads, metrics, resamples, 0.95, 0)
    names = ["against", "fraction"]
    return found.assign(**found[names].astype(object).where(found[names].notna(), None))


@pytest.fixture(scope="module")
def frames() -> dict[PrunedRun, pd.DataFrame]:
    rng = np.random.default_rng(0)
    label = {"a": rng.integers(0, 2, 60).astype(float), "b": rng.integers(0, 2, 50).astype(float)}
    chosen = {"whole": [1.0], "importance": [0.3], "l0": [0.3, None], "static": [None], "dynamic": [None]}
    return {
        cell(seed, name, fraction): evaluation({t: rng.random(len(y)) < 0.8 for t, y in label.items()}, label)
        for name, fractions in chosen.items()
        for fraction, seed in itertools.product(fractions, range(3))
    }


def test_values_and_differences_of_what_is_compared_with_what(frames):
    result = table(frames)
    assert set(result[["way", "fraction", "against"]].itertuples(index=False, name=None)) == {
        ("whole", 1.0, None), ("importance", 0.3, "whole"), ("l0", 0.3, "importance"), ("l0", 0.3, "whole"),
        ("l0", None, "whole"), ("static", None, "whole"), ("dynamic", None, "whole"),
        ("dynamic", None, "static"),
    }  # fmt: skip
    alone = result["against"].isna()
    assert result.loc[alone, "difference"].isna().all()
    for _, rows in result[~alone].groupby(["against", result["task"] == "mean"]):
        for p, corrected in (("p_value", "p_holm"), ("p_seeds", "p_seeds_holm")):
            np.testing.assert_allclose(rows[corrected], holm(rows[p].to_numpy()))
    compared = result.query("way == 'l0' and fraction == 0.3 and against == 'importance'")
    right = {of: f.eval("label == prediction").groupby(f["task"]).mean() for of, f in frames.items()}
    row_of = compared.set_index(["task", "metric"])
    for task in METRICS:
        here, there = (
            np.mean([right[cell(s, method, 0.3)][task] for s in range(3)]) for method in ("l0", "importance")
        )
        row = row_of.loc[(task, "accuracy")]
        assert row["value"] == pytest.approx(here) and row["difference"] == pytest.approx(here - there)
        assert row["heads"] == 6 and row["open_heads"] == 9 and row["missed"] == pytest.approx(1 / 3)
        assert row["n_seeds"] == 3 and row["ci_over"] == "seeds and examples"
        assert row["value_low"] < row["value"] < row["value_high"]
    parts = row_of["difference"]
    expected = (parts["a", "accuracy"] + (parts["b", "accuracy"] + parts["b", "f1"]) / 2) / 2
    assert parts["mean", "mean"] == pytest.approx(expected)


def test_ways_are_scored_on_the_examples_that_all_have(frames):
    def cut(frame: pd.DataFrame) -> pd.DataFrame:
        return frame[~((frame["task"] == "a") & (frame["example"] < 20))]

    fewer = {
        of: cut(frame) if (of.pruning_method, of.fraction) == ("l0", 0.3) else frame
        for of, frame in frames.items()
    }
    found = table(fewer)
    pd.testing.assert_frame_equal(found, table({of: cut(frame) for of, frame in frames.items()}))
    assert (found["value"] - table(frames)["value"]).abs().max() > 0.01


def test_differences_of_two_ways_that_know_nothing_are_marked():
    """Of `a` the whole model knows nothing, and of `b` only heads by l0, in two of three seeds."""
    rng, label = np.random.default_rng(3), {"a": np.arange(80.0) % 2, "b": np.arange(80.0) % 2}
    share = {"whole": (0.5, 0.9), "importance": (0.4, 0.9), "l0": (0.9, 0.5)}
    frames = {}
    for method, seed in itertools.product(share, range(3)):
        right = dict(zip(METRICS, share[method] if seed else (0.9, 0.9), strict=True))
        of = cell(seed, method, 1.0 if method == "whole" else 0.3)
        frames[of] = evaluation({task: rng.random(80) < right[task] for task in right}, label)
    result = table(frames, metrics={"a": ["accuracy"], "b": ["accuracy"]})
    marked = result.loc[result["unpruned_at_chance"], ["way", "task", "against"]]
    assert marked.values.tolist() == [["whole", "a", None], ["importance", "a", "whole"]]
    only = {of: frame[frame["task"] == "a"] for of, frame in frames.items() if of.pruning_method != "l0"}
    assert table(only, metrics={"a": ["accuracy"]})["unpruned_at_chance"].all()


def test_one_task_has_no_mean():
    label = {"a": np.arange(30.0) % 2}
    frames = {
        cell(s, method, f, ("a",)): evaluation({"a": np.arange(30) % 4 != s}, label)
        for method, f in (("whole", 1.0), ("importance", 0.5)) for s in range(2)
    }  # fmt: skip
    result = table(frames, metrics={"a": ["accuracy"]})
    assert {*result["task"]} == {"a"} and {*result["ci_over"].dropna()} == {"examples"}


def simulated(rng, seeds: int, spread: float, gain: float = 0.0) -> pd.Series:
    """The row of two pruning methods on the same examples, with accuracies that vary by `spread`."""
    n = 150
    label, hard = rng.integers(0, 2, n).astype(float), rng.normal(size=n)
    frames = {}
    for seed, method in itertools.product(range(seeds), ("importance", "l0")):
        skill = 1.0 + spread * rng.normal() + gain * (method == "l0")
        right = skill + rng.normal(size=n) > hard
        frames[cell(seed, method, 0.3, ("a",))] = evaluation({"a": right}, {"a": label})
    return table(frames, 150, {"a": ["accuracy"]}).query("way == 'l0'").iloc[0]


@pytest.mark.thorough
@pytest.mark.parametrize("spread", [0.0, 0.3])
@pytest.mark.parametrize("seeds", [3, 5])
def test_level_and_coverage_where_ways_do_not_differ(seeds, spread):
    """Also where every run has skill of its own, so that three seeds differ by chance."""
    rng, found, covered, n = np.random.default_rng(1), 0, 0, 110
    for _ in range(n):
        row = simulated(rng, seeds, spread)
        found += row["p_seeds"] < 0.05
        covered += row["ci_low"] <= 0 <= row["ci_high"]
    assert found / n <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n)
    assert covered / n >= 0.95 - 3 * np.sqrt(0.05 * 0.95 / n)


@pytest.mark.thorough
def test_a_real_difference_is_found():
    rng = np.random.default_rng(2)
    p = [simulated(rng, 5, 0.0, 0.7)["p_seeds"] for _ in range(40)]
    assert np.mean(np.array(p) < 0.05) > 0.6
