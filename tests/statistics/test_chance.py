"""Models at chance: by every kind of metric, and how often models are marked that know nothing or little."""

import numpy as np
import pandas as pd
import pytest

from headspec.per_example import columns
from headspec.plots.drawing.unlearnt import unlearnt
from headspec.statistics.chance import learnt_nothing, task_chances, warnings


def test_a_task_of_which_nothing_is_learnt_is_named():
    """The most frequent class; and scores that have nothing to do with the labels."""
    rng = np.random.default_rng(2)
    label = np.repeat([0.0, 1.0], [127, 73])
    right = np.where(rng.random(200) < 0.9, label, 1 - label)
    metrics = {
        "guessed": (["accuracy", "f1"], np.zeros(200)), "learnt": (["accuracy"], right),
        "unrelated": (["spearman"], rng.random(200)), "known": (["pearson"], label + 0.1 * right),
    }  # fmt: skip
    frames = [
        pd.DataFrame({"task": task, "label": label, "prediction": values})
        for task, (_, values) in metrics.items()
    ]
    names = {task: task_metrics for task, (task_metrics, _) in metrics.items()}
    guessed, unrelated = warnings(pd.concat(frames), names)
    assert guessed.startswith("guessed: accuracy 0.635 without pruning is no better than chance (0.635, ")
    assert unrelated.startswith("unrelated: spearman ") and "(0.000, " in unrelated


def test_tasks_of_several_values_are_marked_beside_others():
    """In the lines of a job as in figures: of words, as many are right as of a blind guess."""
    units = np.random.default_rng(0).integers(5, 20, size=100)
    label = np.stack([units, units // 2, units // 2], axis=-1)
    plain = pd.DataFrame({"task": "plain", "label": np.arange(100) % 2.0, "prediction": np.arange(100) % 2.0})
    words = plain.drop(columns=["label", "prediction"])
    frames = [
        words.assign(
            task=task, **columns("label", label), **columns("prediction", np.stack([right, units], -1))
        )
        for task, right in {"guessed": units // 2, "learnt": units - 1}.items()
    ]
    frame = pd.concat([plain, *frames]).assign(pruned_for="none")
    metrics = {"plain": "accuracy", "guessed": "word_accuracy", "learnt": "word_accuracy"}
    (line,) = warnings(frame, {task: [metric] for task, metric in metrics.items()})
    assert line.startswith("guessed: word_accuracy 0.4") and unlearnt({0: frame}, metrics) == {"guessed"}
    assert task_chances(frame, metrics)["learnt"] == (units // 2).sum() / units.sum()


@pytest.mark.parametrize("metric", ["accuracy", "f1", "matthews", "spearman"])
@pytest.mark.parametrize("right", [0.5, 0.9])
def test_models_that_guess_are_marked_and_no_others(metric, right):
    """At 95 %, one of twenty that are exactly at chance is not; by accuracy of two classes as frequent."""
    rng, marks = np.random.default_rng(3), []
    for _ in range(60):
        label = rng.integers(2, size=200).astype(float)
        marks.append(learnt_nothing(metric, label, np.where(rng.random(200) < right, label, 1 - label)))
    assert np.mean(marks) >= 0.85 if right == 0.5 else not any(marks)
