"""Verdicts on listed heads: closed forms, levels under simulated nulls, power."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from scipy.stats import t as student

from headspec.config.runs import Run
from headspec.errors import DataError
from headspec.statistics.dissociation.listed import head_lists
from headspec.statistics.dissociation.resampled import Evaluation

TASKS = ("a", "b")
METRICS = dict.fromkeys(TASKS, "accuracy")


def evaluation(rng, accuracy, seed: int = 0, n: int = 200, common=None) -> Evaluation:
    """A run of {task: {(pruned, draw): accuracy}}; half of how difficult examples are is `common` (k, n)."""
    columns: dict[str, list] = {name: [] for name in ("pruned", "draw", "task", "prediction")}
    label = np.arange(n) % 2
    own = rng.normal(size=(len(accuracy), n))
    difficulties = norm.cdf((own + (rng.normal(size=own.shape) if common is None else common)) / np.sqrt(2))
    for (task, of_masks), difficulty in zip(accuracy.items(), difficulties, strict=True):
        # whether an example is right is much the same under all masks
        for (pruned, draw), p in of_masks.items():
            columns["pruned"] += [pruned] * n
            columns["draw"] += [draw] * n
            columns["task"] += [task] * n
            columns["prediction"].append(np.where(difficulty < p, label, 1 - label))
    masks = len(columns["prediction"])
    frame = pd.DataFrame(columns | {"prediction": np.concatenate(columns["prediction"])})
    frame = frame.assign(
        heads="mine", n_pruned=4, example=np.tile(np.arange(n), masks), label=np.tile(label, masks)
    ).astype({"draw": "Int32"})
    return Evaluation(Run("bert", "a+b", TASKS, "tuned", seed), METRICS, frame)


def masks(base: float, listed: float, shared: float, random) -> dict:
    drawn = {("random", i): p for i, p in enumerate(random)}
    return {("none", None): base, ("listed", None): listed, ("shared", None): shared} | drawn


def value(one: Evaluation, task: str, pruned: str) -> np.ndarray:
    rows = one.predictions[(one.predictions["task"] == task) & (one.predictions["pruned"] == pruned)]
    right = (rows["prediction"] == rows["label"]).groupby(rows["draw"].fillna(0)).mean()
    return right.to_numpy()


def test_columns_are_what_they_say():
    rng = np.random.default_rng(0)
    accuracy = {
        "a": masks(0.9, 0.6, 0.7, [0.85, 0.8, 0.88]),
        "b": masks(0.8, 0.75, 0.6, [0.8, 0.7, 0.75]),
    }
    runs = [evaluation(rng, accuracy, seed) for seed in range(3)]
    table = head_lists(runs, 100, 0.95, 7).set_index("task")
    mean = {
        (task, pruned): np.mean([value(run, task, pruned) for run in runs], axis=0)
        for task in TASKS
        for pruned in ("none", "listed", "shared", "random")
    }
    for task in TASKS:
        row = table.loc[task]
        for column, pruned in {"base": "none", "value": "listed", "shared": "shared"}.items():
            assert row[column] == pytest.approx(mean[task, pruned].item())
        draws = mean[task, "random"]
        harm, error = draws.mean() - row["value"], draws.std(ddof=1) * np.sqrt(4 / 3)
        assert row["harm"] == pytest.approx(harm) and row["random"] == pytest.approx(draws.mean())
        assert row["p_value"] == pytest.approx(2 * student.sf(abs(harm) / error, 2))
        assert row["harm_high"] - harm == pytest.approx(student.ppf(0.975, 2) * error)
    gains = {
        task: np.mean([
            (value(r, task, "listed") - value(r, task, "shared")) / value(r, task, "none") for r in runs
        ])
        for task in TASKS
    }  # fmt: skip
    assert table.loc["a", "specific"] == pytest.approx(gains["b"] - gains["a"])
    assert table.loc["b", "specific"] == pytest.approx(gains["a"] - gains["b"])
    assert set(table["ci_over"]) == {"seeds and examples"} and set(table["n_seeds"]) == {3}


@pytest.mark.parametrize(
    ("a", "b", "verdicts"),
    [
        # the list costs a alone; the shared heads cost both
        ((0.9, 0.55, 0.65), (0.9, 0.88, 0.65), ["specific", "neither"]),
        # the list is as bad as the shared heads, for both
        ((0.9, 0.6, 0.6), (0.9, 0.6, 0.6), ["important", "important"]),
        # a is the more fragile, whatever is pruned
        ((0.9, 0.4, 0.4), (0.9, 0.7, 0.7), ["important", "important"]),
        ((0.9, 0.88, 0.6), (0.9, 0.88, 0.6), ["neither", "neither"]),
    ],
)
def test_verdicts(a, b, verdicts):
    rng = np.random.default_rng(1)
    random = rng.normal(0.87, 0.02, 20)
    accuracy = {"a": masks(*a, random), "b": masks(*b, random)}
    table = head_lists([evaluation(rng, accuracy, s, 600) for s in range(3)], 200, 0.95, 0)
    assert table["verdict"].tolist() == verdicts


@pytest.mark.slow
@pytest.mark.parametrize(("seeds", "draws"), [(1, 5), (3, 10)])
def test_lists_like_random_ones_are_rarely_harmful(seeds, draws):
    """The effect of a random set is much the same in every seed."""
    rng, p, covered = np.random.default_rng(2), [], []
    for study in range(150):
        effects = rng.normal(0.75, 0.05, (draws + 1, 2))
        runs = []
        for seed in range(seeds):
            found = np.clip(effects + rng.normal(0, 0.02, effects.shape), 0, 1)
            accuracy = {t: masks(0.85, found[0, i], 0.6, found[1:, i]) for i, t in enumerate(TASKS)}
            runs.append(evaluation(rng, accuracy, seed, 100))
        row = head_lists(runs, 20, 0.95, study).iloc[0]
        p.append(row["p_value"])
        covered.append(row["harm_low"] <= 0 <= row["harm_high"])
    assert 0.02 <= np.mean(np.array(p) <= 0.05) <= 0.09
    assert np.mean(covered) == pytest.approx(1 - np.mean(np.array(p) < 0.05), abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [1, 3])
def test_intervals_of_specific_cover(seeds):
    """0, where the list and the shared heads differ for both tasks alike."""
    rng, covered, studies = np.random.default_rng(3), 0, 200
    for study in range(studies):
        accuracy = {t: masks(0.8, 0.7, 0.6, [0.8, 0.78]) for t in TASKS}
        common = rng.normal(size=(2, 150))
        runs = [evaluation(rng, accuracy, seed, 150, common) for seed in range(seeds)]
        row = head_lists(runs, 120, 0.95, study).iloc[0]
        covered += row["specific_low"] <= 0 <= row["specific_high"]
    assert 0.9 <= covered / studies <= 0.985


def test_a_table_that_lacks_a_mask_is_refused():
    rng = np.random.default_rng(0)
    one = evaluation(rng, {t: masks(0.9, 0.8, 0.7, [0.8, 0.85]) for t in TASKS})
    rows = one.predictions
    for lacking in (rows["pruned"] != "shared", rows.index != 5):
        broken = Evaluation(one.run, one.metrics, rows[lacking])
        with pytest.raises(DataError, match="listed.parquet: task 'a' lacks predictions for the list 'mine'"):
            head_lists([broken], 20, 0.95, 0)
