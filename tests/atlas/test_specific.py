"""Specific importance."""

import numpy as np
import pandas as pd
import pytest

from headspec.atlas.sample import fold_means
from headspec.atlas.specific import measure

SHAPE = (2, 3)


def table(maps: dict[str, np.ndarray]) -> pd.DataFrame:
    """A table of importance for tasks with these (n, layers, heads), beside another measure."""
    frames = [fold_means(task, name, of) for task, of in maps.items() for name in ("importance", "relevance")]
    return pd.concat(frames, ignore_index=True)


@pytest.fixture
def maps():
    rng = np.random.default_rng(0)
    return {task: rng.random((45, *SHAPE)) * scale for task, scale in (("a", 1), ("b", 100), ("c", 0.01))}


def by_head(frame, task):
    rows = frame[frame["task"] == task].sort_values(["fold", "layer", "head"])
    return rows["value"].to_numpy().reshape(-1, *SHAPE)


def test_it_is_the_share_less_the_mean_share_of_the_others(maps):
    found = measure(table(maps))
    shares = {}
    for task, of in maps.items():
        means = np.stack([of[fold::20].mean(axis=0) for fold in range(20)])
        shares[task] = means / means.sum(axis=(1, 2), keepdims=True)
    np.testing.assert_allclose(by_head(found, "a"), shares["a"] - (shares["b"] + shares["c"]) / 2)
    total = sum(by_head(found, task) for task in maps)
    np.testing.assert_allclose(total, 0, atol=1e-12)
    assert len(found) == 3 * 20 * 6 and found["n"].sum() == 3 * 45 * 6


def test_heads_that_all_tasks_need_are_not_specific(maps):
    """Though they are the most important for each."""
    common = np.zeros(SHAPE)
    common[0, 0] = 50
    own = {task: np.eye(6).reshape(6, *SHAPE)[place] for place, task in enumerate(maps, 1)}
    found = measure(table({task: np.broadcast_to(common + own[task], (40, *SHAPE)) for task in maps}))
    for task in maps:
        assert by_head(found, task).mean(axis=0).argmax() == own[task].argmax()


def test_of_one_task_it_is_the_share():
    of = np.random.default_rng(1).random((40, *SHAPE))
    found = by_head(measure(table({"a": of})), "a")
    np.testing.assert_allclose(found.sum(axis=(1, 2)), 1)
    assert (found[0].ravel().argsort() == of[0::20].mean(axis=0).ravel().argsort()).all()
