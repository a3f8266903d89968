"""Rankings by what is no task's own: exclusive heads and magnitudes."""

import numpy as np
import pandas as pd
import pytest

from headspec.atlas.cumulative import by_measures
from headspec.atlas.exclusive import exclusive
from headspec.atlas.magnitude import magnitude
from headspec.atlas.sample import measure_folds
from headspec.heads.ranking import exclusive_heads, top_heads
from headspec.models.attention.magnitudes import magnitudes
from support.tiny import CPU, by_family, examples, multitask

SHAPE = (3, 4)


def measured(*tasks: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Importance by task, the same in every fold, and how exclusive heads are."""
    maps = {task: np.random.default_rng(seed).random(SHAPE) for seed, task in enumerate(tasks)}
    frames = [
        measure_folds(task, name, np.broadcast_to(values, (40, *SHAPE)))
        for task, values in maps.items()
        for name in ("importance", "relevance")
    ]
    found = exclusive(pd.concat(frames, ignore_index=True))
    assert len(found) == len(tasks) * 20 * 12 and set(found["measure"]) == {"importance"}
    by_task = {
        task: rows.sort_values(["fold", "layer", "head"])["value"].to_numpy().reshape(20, *SHAPE)
        for task, rows in found.groupby("task")
    }
    assert all((folds == folds[0]).all() for folds in by_task.values())
    return maps, {task: folds[0] for task, folds in by_task.items()}


@pytest.mark.parametrize("tasks", [["a", "b"], ["a", "b", "c"], ["a"]])
def test_it_counts_the_lists_that_have_the_head_for_one_task_alone(tasks):
    maps, found = measured(*tasks)
    for task in tasks:
        others = [maps[other] for other in tasks if other != task]
        counted = np.zeros(SHAPE)
        for n in range(1, 13):
            only = top_heads(maps[task], n)
            for other in others:
                only &= exclusive_heads(maps[task], other, n)
            counted += only
        np.testing.assert_array_equal(np.maximum(found[task], 0), counted)


def test_of_two_tasks_one_is_minus_the_other():
    _, found = measured("a", "b")
    np.testing.assert_array_equal(found["a"], -found["b"])
    assert not (top_heads(found["a"], 5) & top_heads(found["b"], 5)).any()


@pytest.mark.parametrize("kind", by_family(["bert", "albert", "gpt2", "llama", "modernbert"]))
def test_magnitudes_need_no_example(kind):
    """They rank the heads of all tasks alike, in one ranking that the tasks share."""
    model, rows = multitask(kind, {"a": ["x", "y"], "b": ["x", "y"]}), {"a": 47, "b": 21}
    frames = []
    for task, n in rows.items():
        values = magnitude(model, task, examples(n), np.arange(n), CPU)
        assert values.shape == (n, *model.gates.exists.shape)
        np.testing.assert_allclose(values[-1], magnitudes(model.gates))
        frames.append(measure_folds(task, "magnitude", values))
    (shared,) = by_measures(pd.concat(frames), ["magnitude"], ["a", "b"])
    assert shared.pruned_for is None and shared.name == "magnitude"
    np.testing.assert_allclose(shared.maps[1], magnitudes(model.gates))
    (own,) = by_measures(frames[0], ["magnitude"], ["a"])
    assert own.pruned_for == "a"
