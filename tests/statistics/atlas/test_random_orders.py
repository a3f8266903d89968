"""Comparison with few random orders: level of the test and coverage of intervals."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from headspec.config.runs import Run
from headspec.config.values import RANDOM
from headspec.statistics.atlas.rankings import pruning_curves
from headspec.statistics.dissociation.pruned import PrunedPredictions

#: standard error over examples in units of the standard deviation of orders: number of examples, this
#: standard deviation, and whether an example is as difficult under all rankings
RATIOS = {0.1: (213, 0.15, True), 0.2: (53, 0.15, True), 1: (30, 0.1, False)}
LEVEL, TASKS = 0.5, tuple(f"t{i}" for i in range(20))


def studies(rng, mixture: str, ratio: float, orders: int, seeds: int) -> list[PrunedPredictions]:
    """Runs of independent tasks in which a ranking is one more random order, the same in all seeds."""
    n, spread, same = RATIOS[ratio]
    difficulty, runs = rng.random((len(TASKS), 1, n)), []
    useless = rng.normal(LEVEL, spread, (len(TASKS), 1))
    for seed in range(seeds):
        level = rng.normal(LEVEL, spread, (len(TASKS), 1 + orders, 1))
        level[:, 0] = useless
        shape = (len(TASKS), 1 + orders, n)
        pruned = (difficulty if same else rng.random(shape)) < level
        right = np.stack([np.broadcast_to(difficulty < 0.9, shape), pruned])
        columns = {"fraction": (0.0, 1.0), "task": TASKS, "draw": range(-1, orders), "example": range(n)}
        frame = pd.MultiIndex.from_product(columns.values(), names=columns).to_frame(index=False)
        random, top = frame["draw"] >= 0, pd.Series("top", frame.index)
        frame = frame.assign(
            label=1.0, prediction=right.ravel().astype(float),
            draw=frame["draw"].astype("Int32").where(random), ranking=np.where(random, RANDOM, "confidence"),
            order=top.mask(random), pruned_for=frame["task"].mask(random),
        )  # fmt: skip
        run = Run("m", mixture, TASKS, "tuned", seed)
        runs.append(PrunedPredictions(run, dict.fromkeys(TASKS, "accuracy"), frame))
    return runs


@pytest.mark.thorough
@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize(("orders", "seeds"), [(2, 1), (5, 1), (10, 1), (5, 3)])
def test_few_orders_keep_level_and_coverage(orders, seeds, ratio):
    """Of a ranking compared with them in 20 studies of each mixture."""
    rng = np.random.default_rng([int(10 * ratio), orders, seeds])
    runs = (run for i in range(12 // seeds) for run in studies(rng, f"m{i}", ratio, orders, seeds))
    table = pruning_curves(runs, 199, 0.95, seed=0)["pruning_areas"]
    table = table[(table["against"] == RANDOM) & (table["task"] != "mean")]
    most = stats.binom.ppf(0.999, len(table), 0.05)
    rejected = (table["p_value" if seeds < 3 else "p_seeds"] <= 0.05).sum()
    assert rejected <= most
    least = stats.binom.ppf(0.001, len(table), 0.025)
    assert orders == 2 or seeds == 3 or rejected >= least  # not far below it
    assert ((table["ci_low"] > 0) | (table["ci_high"] < 0)).sum() <= most
    assert set(table["ci_over"]) == {"examples and orders" if seeds < 3 else "seeds, examples and orders"}
