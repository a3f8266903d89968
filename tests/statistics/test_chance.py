"""Models at chance, for every kind of metric, and how often models are marked that know little or nothing."""

import numpy as np
import pandas as pd
import pytest

from headspec.per_example import columns
from headspec.plots.drawing.marks import unlearnt
from headspec.statistics.chance import (
    MARKS,
    SAYS,
    learnt_nothing,
    marks,
    reversed_labels,
    task_chances,
    warnings,
)
from headspec.tasks.metrics import chance


def test_a_row_has_one_mark_the_worst():
    """That of a table without a column, as one of an earlier version, is that of the others."""
    every = pd.DataFrame(
        {"at_chance": [True, True, False, None, True], "unpruned_at_chance": [True, False, None, True, True],
         "below_chance": [False, None, False, True, True]}
    )  # fmt: skip
    assert marks(every).tolist() == ["×", "†", "", "↓", "↓"] and {*MARKS.values()} == {*SAYS}
    assert marks(every.drop(columns="below_chance")).tolist() == ["×", "†", "", "×", "×"]
    assert marks(every[["at_chance"]]).tolist() == ["†", "†", "", "", "†"]


def test_tasks_of_which_nothing_is_learnt_are_named():
    """The most frequent class; scores that have nothing to do with the labels; and of words, a blind guess.

    In the lines of a job as in figures, beside tasks of several values.
    """
    rng = np.random.default_rng(2)
    label = np.repeat([0.0, 1.0], [127, 73])
    right = np.where(rng.random(200) < 0.9, label, 1 - label)
    units = rng.integers(5, 20, size=200)
    tasks = {
        "frequent": ("accuracy", np.zeros(200)), "learnt": ("accuracy", right),
        "unrelated": ("spearman", rng.random(200)), "known": ("pearson", label + 0.1 * right),
        "guessed": ("word_accuracy", units // 2), "read": ("word_accuracy", units - 1),
    }  # fmt: skip
    frames = []
    for task, (metric, values) in tasks.items():
        frame = pd.DataFrame({"task": task, "pruned_for": "none"}, index=range(200))
        if metric == "word_accuracy":
            words = columns("label", np.stack([units, units // 2, units // 2], axis=-1))
            frames.append(frame.assign(**words, **columns("prediction", np.stack([values, units], axis=-1))))
        else:
            frames.append(frame.assign(label=label, prediction=values))
    table, metrics = pd.concat(frames), {task: metric for task, (metric, _) in tasks.items()}
    frequent, unrelated, guessed = warnings(table, metrics)
    assert frequent.startswith("frequent: accuracy 0.635 without pruning is no better than chance (0.635, ")
    assert unrelated.startswith("unrelated: spearman ") and "(0.000, " in unrelated
    assert guessed.startswith("guessed: word_accuracy 0.4")
    assert unlearnt({0: table}, metrics) == dict.fromkeys(("frequent", "unrelated", "guessed"), "×")
    assert task_chances(table, metrics)["read"] == (units // 2).sum() / units.sum()


def test_labels_below_chance_after_a_short_training_say_what_helps():
    """Probabilities in the right order, but below a half, as they are when training begins."""
    rng = np.random.default_rng(5)
    label = (rng.random((300, 6)) < 0.3).astype(float)
    ranked = 0.1 + 0.2 * label + 0.1 * rng.random(label.shape)

    def line(metric, predicted):
        frame = pd.DataFrame({"task": "moods", "pruned_for": "none"}, index=range(300))
        rows = frame.assign(**columns("label", label), **columns("prediction", predicted))
        (found,) = warnings(rows, {"moods": metric})
        return found

    nothing = (
        "300 examples do not show that the model has learnt it, as more of them could; left out of findings"  # noqa: E501
    )
    for metric in ("micro_f1", "macro_f1"):
        told = line(metric, ranked)
        assert told.startswith(f"moods: {metric} 0.000 without pruning is no better than chance (0.")
        assert told.endswith(
            "the model gives few labels a probability of 0.5 yet; left out of findings. Raise the "
            "method's learning_rate, then its epochs; lrap, here 1.000 (chance "
            f"{chance('lrap', label):.3f}), shows learning first"
        )
        assert line(metric, np.ones_like(label)).endswith(nothing)  # at chance, not below
    assert line("lrap", np.zeros_like(label)).endswith(nothing)


@pytest.mark.parametrize(("right", "said"), [(3, "is below chance (0.500"), (19, "is no better than chance")])
def test_what_is_far_below_chance_is_a_reversal(right, said):
    """Of 40 pairs: 3 are far below a half, 19 could be chance."""
    label = np.arange(40) % 2.0
    rows = pd.DataFrame({"task": "pairs", "label": label})
    rows["prediction"] = np.where(np.arange(40) < right, label, 1 - label)
    (line,) = warnings(rows, {"pairs": "accuracy"})
    assert said in line and "40 examples" in line and ("labels or sides are swapped" in line) == (right == 3)
    signs = np.where(rows["prediction"] == label, 1.0, -1.0)  # of preferred sentences
    assert reversed_labels("pair_accuracy", label, signs) == (right == 3)
    seeds = {seed: rows.assign(pruned_for="none") for seed in (0, 1)}
    assert unlearnt(seeds, {"pairs": "accuracy"}) == {"pairs": "↓" if right == 3 else "×"}
    guess = rows.assign(pruned_for="none", prediction=label[::2].repeat(2))  # of one seed alone
    assert unlearnt(seeds | {2: guess}, {"pairs": "accuracy"}) == {"pairs": "×"}


@pytest.mark.parametrize("metric", ["accuracy", "f1", "matthews", "pearson", "spearman"])
def test_a_coin_is_no_reversal(metric):
    """It is worse than the best constant by F1, and by accuracy where one class has most examples."""
    rng, found = np.random.default_rng(4), []
    for share in np.repeat([0.5, 0.8], 20):
        label, coin = (rng.random((2, 150)) < [[share], [0.5]]).astype(float)
        found.append(reversed_labels(metric, label, coin))
        assert reversed_labels(metric, label, 1 - label) == (metric != "f1")  # which is never below all 0
    assert np.mean(found) <= 0.15


@pytest.mark.parametrize("metric", ["accuracy", "f1", "matthews", "spearman"])
@pytest.mark.parametrize("right", [0.5, 0.9])
def test_models_that_guess_are_marked_and_no_others(metric, right):
    """At 95 %, one of twenty that are exactly at chance is not; by accuracy of two classes as frequent."""
    rng, marks = np.random.default_rng(3), []
    for _ in range(60):
        label = rng.integers(2, size=200).astype(float)
        marks.append(learnt_nothing(metric, label, np.where(rng.random(200) < right, label, 1 - label)))
    assert np.mean(marks) >= 0.85 if right == 0.5 else not any(marks)
