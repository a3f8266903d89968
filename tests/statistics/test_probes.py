"""Accuracy of heads by probes: planted heads, and intervals and p-values on simulated runs."""

import numpy as np
import pandas as pd
import pytest

from headspec.probes.cases import LABELLINGS, Cases, counted
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
    frame = pd.DataFrame(columns).assign(right=right.ravel(), n=UNITS)
    return frame.assign(control=[[UNITS // 3]] * len(frame), n_control=[[UNITS]] * len(frame))


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


def test_the_control_has_a_head_of_its_own():
    """Of two labellings, one is known to head 2 and one to head 9, and they have units of other numbers."""
    rng = np.random.default_rng(6)
    head_of_row = np.tile(np.arange(12), FOLDS)
    known = table(rng, np.where(np.arange(12) == 5, 0.8, 0.2), np.zeros(FOLDS))
    right = np.stack([np.where(head_of_row == 2, 20, 5), np.where(head_of_row == 9, 16, 4)], axis=1)
    controls = known.assign(control=list(right), n_control=[[40, 20]] * len(known))
    best, mean = (
        probes({("m", "none", "pretrained", "pos"): [controls]}, 100, 0.95, 0)
        .query("label == 'A' and heads == @heads").iloc[0]
        for heads in ("best", "mean")
    )  # fmt: skip
    assert best["control"] == pytest.approx((20 / 40 + 16 / 20) / 2)
    assert mean["control"] == pytest.approx(((20 + 11 * 5) / 12 / 40 + (16 + 11 * 4) / 12 / 20) / 2)
    assert best["selectivity"] == pytest.approx(best["accuracy"] - best["control"])
    assert best["selectivity_low"] < best["selectivity"] < best["selectivity_high"]
    assert best["selectivity_high"] - best["selectivity_low"] > 1  # 12 times half of .3
    same = known.assign(control=[[15, 15]] * len(known), n_control=[[30, 30]] * len(known))
    row = probes({("m", "none", "pretrained", "pos"): [same]}, 100, 0.95, 0).query("heads == 'best'").iloc[0]
    assert row["selectivity_low"] == pytest.approx(row["accuracy_low"] - 0.5)  # labellings that do not differ


def nothing_known(rng: np.random.Generator, seeds: int, of: str) -> list[pd.DataFrame]:
    """Tables 'probed' of heads whose outputs are noise around a mean of each; all seeds have the same units.

    Parameters
    ----------
    of : "noise": every unit has a label of its own; "words": labels depend on words, of which few are
        frequent, as those of the control; "known words": and outputs depend on words as well
    """
    units, heads, size, words, labels = 500, 10, 8, 200, 5
    chances = np.array([0.4, 0.3, 0.15, 0.1, 0.05])
    frequency = 1 / np.arange(1, words + 1)
    labellings = rng.choice(labels, (LABELLINGS + 1, words), p=chances)
    splits = [rng.choice(words, units, p=frequency / frequency.sum()) for _ in range(2)]
    targets = [labellings[:, word] for word in splits]
    if of == "noise":
        targets = [np.stack([rng.choice(labels, units, p=chances), *each[1:]]) for each in targets]
    none = np.zeros(units, dtype=int)
    cases = Cases(None, none, np.arange(units) % FOLDS, none, none, none, targets[1][0], targets[1][1:])
    tables = []
    for _ in range(seeds):
        word_output = rng.normal(size=(heads, words, size)) * (of == "known words")
        mean = rng.normal(size=(heads, 1, size))
        train, test = (mean + word_output[:, word] + rng.normal(size=(heads, units, size)) for word in splits)
        right = [nearest(train, a, test, labels) == b for a, b in zip(*targets, strict=True)]
        right = [hits.T for hits in right]
        places = np.zeros(heads, dtype=int), np.arange(heads)
        controls = list(zip(cases.control, right[1:], strict=True))
        tables.append(counted(cases, list("ABCDE"), places, right[0], controls, None))
    return tables


def nearest(train: np.ndarray, label: np.ndarray, test: np.ndarray, labels: int) -> np.ndarray:
    """The label with the nearest centroid, (heads, units), of outputs (heads, units, size)."""
    centroids = np.eye(labels)[label].T @ train
    length = np.linalg.norm(centroids, axis=-1)
    cosines = test @ (centroids / np.maximum(length, 1e-9)[..., None]).swapaxes(1, 2)
    return np.where(length[:, None] == 0, -np.inf, cosines).argmax(-1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("of", "seeds"), [("noise", 1), ("words", 3), ("known words", 1), ("known words", 3)]
)
def test_where_labels_are_random_heads_are_not_selective(of, seeds):
    rng, studies, found = np.random.default_rng(7), 60, []
    for study in range(studies):
        group = {("m", "none", "random", "pos"): nothing_known(rng, seeds, of)}
        rows = probes(group, 120, 0.95, study).query("heads == 'best'").fillna({"label": "all"})
        found.append(rows.assign(above=rows["selectivity_low"] > 0))
    by_label = pd.concat(found).groupby("label")
    bias, error = by_label["selectivity"].mean(), by_label["selectivity"].sem()
    assert (bias.abs() < 0.004 + 3 * error).all() and error["all"] < 0.015
    assert by_label["above"].mean().max() <= 0.025 + 3 * np.sqrt(0.025 * 0.975 / studies)


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
        study_groups = groups(rng, [0.5], *runs, seeds)
        rows = probes(study_groups, 120, 0.95, study).query(
            "method == 'single' and heads == 'mean' and label == 'A'"
        )
        covered += rows["accuracy_low"].item() <= 0.5 <= rows["accuracy_high"].item()
        tested = changes(study_groups, 120, 0.95, study).query("heads == 'mean' and label == 'A'")
        row = tested[(tested["before"] == "single")].iloc[0]
        significant += (row["ci_low"] > 0 or row["ci_high"] < 0) if seeds < 3 else row["p_value"] < 0.05
    assert 0.91 <= covered / studies <= 0.985
    assert 0.015 <= significant / studies <= 0.09
