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
    """Groups of runs; of `pretrained` one for all seeds, or one each."""
    difficulty = rng.normal(0, 0.05, FOLDS)
    start = "pretrained" if np.ndim(pretrained) == 1 else "random"
    named = {
        ("none", start): [pretrained] if start == "pretrained" else pretrained,
        ("pos", "single"): single,
        ("pos+x", "tuned"): joint,
    }
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


def test_all_labels_together_are_those_of_every_label_with_its_own_head():
    rng = np.random.default_rng(5)
    tables = []
    for label, head in (("A", 3), ("B", 8)):
        accuracy = np.where(np.arange(12) == head, 0.8, 0.2)
        tables.append(table(rng, accuracy, np.zeros(FOLDS)).assign(label=label))
    found = probes({("m", "none", "pretrained", "pos"): [pd.concat(tables)]}, 100, 0.95, 0)
    best = found[found["heads"] == "best"].fillna({"label": "all"}).set_index("label")
    assert best.loc["all", "accuracy"] == pytest.approx(best.loc[["A", "B"], "accuracy"].mean())
    assert best.loc["all", "accuracy"] == pytest.approx(0.8, abs=0.05)


def test_a_planted_head_is_found_and_its_change_measured():
    rng = np.random.default_rng(1)
    before, after = np.full(24, 0.4), np.full(24, 0.4)
    before[7], after[7] = 0.6, 0.8
    table_of = changes(groups(rng, before, [after] * 5, [before] * 5, 5), 200, 0.95, 0)
    best = table_of.query("heads == 'best' and label == 'A'").set_index(["before", "mixture"])
    assert best.loc[("pretrained", "pos"), "change"] == pytest.approx(0.2, abs=0.04)
    assert best.loc[("single", "pos+x"), "change"] == pytest.approx(-0.2, abs=0.04)
    assert best.loc[("pretrained", "pos"), "p_holm"] < 0.01
    mean = table_of.query("heads == 'mean' and label == 'A'").set_index(["before", "mixture"])
    assert mean.loc[("pretrained", "pos"), "change"] == pytest.approx(0.2 / 24, abs=0.01)


def test_random_encoders_are_paired_with_the_runs_of_their_seed():
    """Each has another head that knows the label; it is the same head after training."""
    rng = np.random.default_rng(3)
    before = [np.where(np.arange(24) == seed, 0.9, 0.3) for seed in range(3)]
    table_of = changes(groups(rng, before, before, [each - 0.2 for each in before], 3), 200, 0.95, 0)
    best = table_of.query("heads == 'best' and label == 'A'").set_index(["before", "mixture"])["change"]
    assert best["random", "pos"] == pytest.approx(0, abs=0.05)
    assert best["single", "pos+x"] == pytest.approx(-0.2, abs=0.05)


def test_variants_of_a_mixture_are_compared_with_its_plain_training():
    rng = np.random.default_rng(4)
    of = groups(rng, [0.5], [[0.7]] * 3, [[0.6]] * 3, 3)
    of["m", "pos+x", "iat", "pos"] = [table(rng, np.array([0.8]), np.zeros(FOLDS)) for _ in range(3)]
    rows = changes(of, 200, 0.95, 0).query("method == 'iat' and heads == 'mean' and label == 'A'")
    assert rows["before"].tolist() == ["pretrained", "single", "tuned"]
    assert rows["change"].tolist() == pytest.approx([0.3, 0.1, 0.2], abs=0.06)


@pytest.mark.slow
@pytest.mark.parametrize(("seeds", "spread"), [(1, 0.0), (3, 0.03), (5, 0.03)])
def test_intervals_cover_and_p_values_keep_their_level(seeds, spread):
    """Of the accuracy of one head, and of a change that is 0 in the mean of runs."""
    rng = np.random.default_rng(2)
    covered, significant, studies = 0, 0, 160
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
