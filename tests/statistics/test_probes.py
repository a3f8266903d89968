"""Accuracy of heads by probes: planted heads, and intervals and p-values on simulated runs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from headspec.statistics.probes import changes, probes

FOLDS, UNITS = 20, 30


def table(rng: np.random.Generator, accuracy: np.ndarray, difficulty: np.ndarray) -> pd.DataFrame:
    """A table 'probed' of one label.

    Parameters
    ----------
    accuracy : (heads,)
    difficulty : (folds,), added to all accuracies, which all runs share
    """
    chance = np.clip(accuracy + difficulty[:, None], 0, 1)
    right = rng.binomial(UNITS, chance)
    fold, head = (index.ravel() for index in np.indices(right.shape))
    columns = {"fold": fold, "direction": None, "layer": 0, "head": head, "label": "A"}
    return pd.DataFrame(columns).assign(right=right.ravel(), control=UNITS // 3, n=UNITS)


def groups(rng, pretrained, single, joint, seeds):
    difficulty = rng.normal(0, 0.05, FOLDS)
    named = {("none", "pretrained"): [pretrained], ("pos", "single"): single, ("pos+x", "tuned"): joint}
    return {
        ("m", mixture, method, "pos"): [table(rng, np.asarray(a), difficulty) for a in accuracies]
        for (mixture, method), accuracies in named.items()
    }


def test_the_best_head_is_no_maximum_of_noise():
    rng = np.random.default_rng(0)
    same = np.full(144, 0.5)
    table_of = probes(groups(rng, same, [same] * 3, [same] * 3, 3), 200, 0.95, 0)
    best = table_of[table_of["heads"] == "best"]
    assert best["accuracy"].between(0.44, 0.56).all()
    assert (best["control"] == 1 / 3).all() and (best["n"] == FOLDS * UNITS).all()
    assert {*best["label"].fillna("all")} == {"all", "A"}


def test_a_planted_head_is_found_and_its_change_measured():
    rng = np.random.default_rng(1)
    before, after = np.full(24, 0.4), np.full(24, 0.4)
    before[7], after[7] = 0.6, 0.8
    table_of = changes(groups(rng, before, [after] * 5, [before] * 5, 5), 200, 0.95, 0)
    best = table_of.query("heads == 'best' and label == 'A'").set_index(["before", "after"])
    assert best.loc[("pretrained", "single"), "change"] == pytest.approx(0.2, abs=0.04)
    assert best.loc[("single", "pos+x"), "change"] == pytest.approx(-0.2, abs=0.04)
    assert best.loc[("pretrained", "single"), "p_holm"] < 0.01
    mean = table_of.query("heads == 'mean' and label == 'A'").set_index(["before", "after"])
    assert mean.loc[("pretrained", "single"), "change"] == pytest.approx(0.2 / 24, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(("seeds", "spread"), [(1, 0.0), (3, 0.0), (3, 0.03), (5, 0.03)])
def test_intervals_cover_and_p_values_keep_their_level(seeds, spread):
    """Of the accuracy of one head, and of a change that is 0 in the mean of runs."""
    rng = np.random.default_rng(2)
    covered, significant, studies = 0, 0, 300
    for study in range(studies):
        runs = [[[0.5 + each] for each in rng.normal(0, spread, seeds)] for _ in range(2)]
        of_study = groups(rng, [0.5], *runs, seeds)
        rows = probes(of_study, 120, 0.95, study).query(
            "method == 'single' and heads == 'mean' and label == 'A'"
        )
        covered += rows["accuracy_low"].item() <= 0.5 <= rows["accuracy_high"].item()
        tested = changes(of_study, 120, 0.95, study).query("heads == 'mean' and label == 'A'")
        row = tested[(tested["before"] == "single")].iloc[0]
        significant += (row["ci_low"] > 0 or row["ci_high"] < 0) if seeds < 3 else row["p_value"] < 0.05
    assert 0.91 <= covered / studies <= 0.985
    assert 0.015 <= significant / studies <= 0.09
