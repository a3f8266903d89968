"""Dissociation before and after IAT."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from headspec import tables
from headspec.config.values import MEAN
from headspec.statistics.dissociation.pruned import PrunedPredictions
from headspec.statistics.dissociation.resampled import resample_run
from headspec.statistics.improvement import specialization
from support.data.evaluations import evaluated
from support.schemas import SCHEMAS

SEEDS = (0, 1, 2)


def pruned(method: str, seed: int, same: float, other: float = 0.9, n: int = 200) -> PrunedPredictions:
    """Accuracies with a task's heads pruned (`same`), and with the other task's heads pruned (`other`)."""
    rng, label = np.random.default_rng([seed, len(method)]), np.arange(n) % 2.0
    predictions = {}
    for task, mask in itertools.product("ab", ("none", "a", "b")):
        p = 0.95 if mask == "none" else same if mask == task else other
        predictions[task, mask, 0.3 * (mask != "none")] = np.abs(label - (rng.random(n) > p))
    return evaluated(["task", "pruned_for", "fraction"], predictions, label, method=method, seed=seed)


def test_it_is_the_difference_of_dissociation():
    runs = [pruned("tuned", s, 0.85) for s in SEEDS] + [pruned("iat", s, 0.7) for s in SEEDS]
    table = specialization(runs, "tuned", 0.3, 400, 0.95, 7).set_index("task")
    before, after = np.reshape([resample_run(e, [0.3], 100, 0.95, 0, 0).mean[0] for e in runs], (2, 3, 2))
    assert list(table.index) == ["a", "b", MEAN]
    np.testing.assert_allclose(table.loc[["a", "b"], "before"], before.mean(axis=0))
    np.testing.assert_allclose(table.loc[["a", "b"], "after"], after.mean(axis=0))
    mean = table.loc[MEAN]
    assert mean["difference"] == pytest.approx((after - before).mean())
    assert mean["n_seeds"] == 3 and 0 < mean["ci_low"] < mean["difference"] < mean["ci_high"]
    assert not table["at_chance"].any() and not table["unpruned_at_chance"].any()


def test_seeds_and_examples_are_paired():
    """If IAT changes nothing, the difference does not vary, however much seeds and examples do."""
    runs = [pruned("tuned", s, 0.6 + 0.1 * s) for s in SEEDS]
    same = [replace(e, run=replace(e.run, method="iat")) for e in runs]
    table = specialization([*runs, *same], "tuned", 0.3, 100, 0.95, 7)
    assert (table[["difference", "ci_low", "ci_high"]] == 0).all(axis=None)
    assert (table["before"] == table["after"]).all()


def test_models_at_chance_are_marked(tmp_path):
    table = specialization([pruned("tuned", 0, 0.8), pruned("iat", 0, 0.3)], "tuned", 0.3, 200, 0.95, 0)
    assert table["at_chance"].all() and not table["unpruned_at_chance"].any()
    assert set(table["ci_over"]) == {"examples"}
    tables.write(tmp_path / "t", SCHEMAS["specialization"], table, {})
    assert len(tables.read(tmp_path / "t")) == 3
