"""Specific importance."""

import numpy as np
import pandas as pd

from headspec.atlas.sample import measure_folds, specific

SHAPE, FOLDS = (2, 3), 20
MAPS = {
    task: np.random.default_rng(i).random((45, *SHAPE)) * scale
    for i, (task, scale) in enumerate({"a": 1, "b": 100, "c": 0.01}.items())
}


def measured(*tasks: str) -> tuple[pd.DataFrame, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The table of specific importance, and by task its values and the shares of importance by fold."""
    frames = [measure_folds(task, name, MAPS[task]) for task in tasks for name in ("importance", "relevance")]
    found, values, shares = specific(pd.concat(frames, ignore_index=True)), {}, {}
    for task, rows in found.sort_values(["fold", "layer", "head"]).groupby("task"):
        values[str(task)] = rows["value"].to_numpy().reshape(FOLDS, *SHAPE)
        means = np.stack([MAPS[str(task)][fold::FOLDS].mean(axis=0) for fold in range(FOLDS)])
        shares[str(task)] = means / means.sum(axis=(1, 2), keepdims=True)
    return found, values, shares


def test_it_is_the_share_less_the_mean_share_of_the_others():
    found, values, shares = measured("a", "b", "c")
    np.testing.assert_allclose(values["a"], shares["a"] - (shares["b"] + shares["c"]) / 2)
    np.testing.assert_allclose(sum(values.values()), 0, atol=1e-12)
    assert len(found) == 3 * 20 * 6 and found["n"].sum() == 3 * 45 * 6


def test_of_one_task_it_is_the_share():
    _, values, shares = measured("a")
    np.testing.assert_allclose(values["a"], shares["a"])
