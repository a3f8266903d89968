"""Accuracy of heads by probes: against loops, planted heads, and level and coverage on simulated runs."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm, t

from headspec.probes import LABELLINGS, Cases, counted
from headspec.seeds import derive
from headspec.statistics.intervals import over_seeds_and_examples, p_over_seeds_and_examples
from headspec.statistics.probes import changes, probes
from headspec.statistics.resampling import holm
from support.data.elements import elements
from support.tiers import cases

FOLDS, UNITS = 20, 30


# --- against loops

#: units of each label in a fold, and under three labellings; nobody has any of C
NUMBERS = {"B": (10, [20, 0, 15]), "A": (30, [20, 40, 25]), "C": (0, [0, 0, 0])}


def random_table(rng: np.random.Generator) -> pd.DataFrame:
    """A table 'probed' of six folds and four heads, of which some are right more often."""
    frames = []
    for label, (n, controls) in NUMBERS.items():
        share = rng.choice([0.2, 0.5, 0.7, 0.98], 4, replace=False)
        frame = elements("fold", "layer", "head", right=rng.binomial(n, share, (6, 4)).reshape(6, 2, 2))
        control = rng.binomial(controls, 0.4, (24, 3)).tolist()
        frames.append(frame.assign(label=label, direction=None, n=n, control=control))
        frames[-1]["n_control"] = [controls] * 24
    return pd.concat(frames, ignore_index=True)


def drawn_folds(seeds: int, resamples: int, confidence: float, seed: int) -> np.ndarray:
    """How often folds count, (1 + resamples, folds): once, and as drawn, with the spread of a sample."""
    counts = np.random.default_rng(derive(seed, "folds of probes")).multinomial(
        6, np.full(6, 1 / 6), resamples
    )
    tail = (1 + confidence) / 2
    wider = t.ppf(tail, 5) / norm.ppf(tail) if seeds < 3 else 1  # Student's t
    return np.vstack([np.ones(6), 1 + (counts - 1) * np.sqrt(6 / 5) * wider])


def shares(table: pd.DataFrame, heads: str, weights: np.ndarray, by: pd.DataFrame, labelling=None):
    """Shares (1 + resamples, 3) that heads get right of all labels, of A and of B.

    The best head of a label is chosen, by the table `by`, in even folds for the odd ones, and the reverse.
    """
    sums, units, even = [], [], np.arange(6) % 2 == 0
    for label in "AB":
        rows, others = (frame[frame["label"] == label] for frame in (table, by))
        if labelling is None:
            right, n, judged = rows["right"], rows["n"], others["right"]
        else:
            right, n, judged = rows["control"].str[labelling], rows["n_control"].str[labelling], None
        right, n = np.reshape(right, (6, 4)), np.reshape(n, (6, 4))[:, 0]
        judged = right if judged is None else np.reshape(judged, (6, 4))
        best = np.where(even, judged[~even].sum(axis=0).argmax(), judged[even].sum(axis=0).argmax())
        sums.append(right[np.arange(6), best] if heads == "best" else right.mean(axis=1))
        units.append(n)
    with np.errstate(invalid="ignore"):
        return weights @ np.transpose([sum(sums), *sums]) / (weights @ np.transpose([sum(units), *units]))


@pytest.mark.parametrize("seeds", [1, 3])
def test_accuracy_and_selectivity_are_those_of_loops(seeds):
    rng = np.random.default_rng(7)
    tables, weights = [random_table(rng) for _ in range(seeds)], drawn_folds(seeds, 50, 0.9, 7)
    found = probes({("m", "none", "random", "pos"): tables}, 50, 0.9, 7)
    assert found["n"].tolist() == [6 * 40, 6 * 30, 6 * 10] * 2 and (found["n_seeds"] == seeds).all()
    for heads, rows in found.groupby("heads"):
        assert rows["label"].fillna("all").tolist() == ["all", "A", "B"]
        right = np.stack([shares(each, heads, weights, each) for each in tables], axis=1)
        controls = np.array([
            [shares(each, heads, weights, each, labelling) for each in tables] for labelling in range(3)
        ])  # (labellings, seeds, 1 + resamples, labels)  # fmt: skip
        control = np.nanmean(controls, axis=0).swapaxes(0, 1)
        labellings = controls[:, :, 0].mean(axis=1)
        k = (~np.isnan(labellings)).sum(axis=0)
        assert k.tolist() == [3, 3, 2]
        reach = t.ppf(0.95, k - 1) * np.nanstd(labellings, axis=0, ddof=1) * np.sqrt(1 + 1 / k)
        np.testing.assert_allclose(rows["control"], control[0].mean(axis=0))
        for name, values, more in (("accuracy", right, 0), ("selectivity", right - control, reach)):
            mean, (low, high, _) = values[0].mean(axis=0), over_seeds_and_examples(values[0], values[1:], 0.9)
            least = 0 if name == "accuracy" else -1
            ends = [mean - np.hypot(mean - low, more), mean + np.hypot(high - mean, more)]
            np.testing.assert_allclose(rows[name], mean)
            np.testing.assert_allclose(rows[[f"{name}_low", f"{name}_high"]].T, np.clip(ends, least, 1))


@pytest.mark.parametrize(
    ("start", "seeds"), cases([("pretrained", 3), ("random", 3), ("pretrained", 2)], ("random", 3).__eq__)
)
def test_changes_are_those_of_loops(start, seeds):
    """Of the heads that are best before training; random encoders are paired with the runs of their seed.

    Models of a mixture are also compared with those of the task alone, and variants with plain training.
    """
    rng = np.random.default_rng(8)
    numbers = {("none", start): 1 if start == "pretrained" else seeds}
    numbers |= dict.fromkeys([("pos", "single"), ("pos+x", "tuned"), ("pos+x", "iat")], seeds)
    tables = {name: [random_table(rng) for _ in range(n)] for name, n in numbers.items()}
    found = changes({("m", *name, "pos"): group for name, group in tables.items()}, 50, 0.9, 7)
    weights, runs = drawn_folds(seeds, 50, 0.9, 7), {name[1]: group for name, group in tables.items()}
    runs[start] = runs[start] * (seeds // len(runs[start]))
    pairs = [(start, "single"), (start, "tuned"), ("single", "tuned")]
    pairs += [(start, "iat"), ("single", "iat"), ("tuned", "iat")]
    keys = found[["before", "method"]].drop_duplicates()
    assert list(keys.itertuples(index=False, name=None)) == pairs and (found["n_seeds"] == seeds).all()
    assert {*found["heads"]} == {"best", "mean"}
    assert found["mixture"].tolist() == ["pos" if name == "single" else "pos+x" for name in found["method"]]
    for (heads, before, method), rows in found.groupby(["heads", "before", "method"]):
        values = np.stack([
            shares(after, heads, weights, first) - shares(other, heads, weights, first)
            for after, other, first in zip(runs[method], runs[before], runs[start], strict=True)
        ], axis=1)  # fmt: skip
        low, high, _ = over_seeds_and_examples(values[0], values[1:], 0.9)
        assert rows["label"].fillna("all").tolist() == ["all", "A", "B"]
        expected = values[0].mean(axis=0), low.clip(-1, 1), high.clip(-1, 1)
        np.testing.assert_allclose(rows[["change", "ci_low", "ci_high"]].T, expected, atol=1e-12)
        if seeds == 3:
            folds = np.stack([[shares(after, heads, fold, first) - shares(other, heads, fold, first)
                for after, other, first in zip(runs[method], runs[before], runs[start], strict=True)]
                for fold in np.eye(6)[:, None]])[:, :, 0].mean(axis=1)  # fmt: skip
            permuted = [abs(np.array(signs) @ folds) for signs in itertools.product([1, -1], repeat=6)]
            permuted = np.mean(np.array(permuted) >= abs(folds.sum(axis=0)) - 1e-12, axis=0)  # by all signs
            others = p_over_seeds_and_examples(values[0], values[1:])
            np.testing.assert_allclose(rows["p_value"], permuted, atol=0.015)
            np.testing.assert_allclose(rows["p_seeds"], np.maximum(others, rows["p_value"]))
    for _, rows in found.groupby(["heads", found["label"].isna()]):  # all labels are a family of their own
        for p, corrected in (("p_value", "p_holm"), ("p_seeds", "p_seeds_holm")):
            np.testing.assert_allclose(rows[corrected], holm(rows[p]))
    assert found["p_value"].notna().all() and found["p_seeds"].notna().all() == (seeds == 3)
    assert set(found["model"] + found["task"]) == {"mpos"}


# --- planted and simulated


def table(rng: np.random.Generator, accuracy: np.ndarray, difficulty: np.ndarray) -> pd.DataFrame:
    """A table 'probed' of one label.

    Parameters
    ----------
    accuracy : (heads,)
    difficulty : (folds,), added to all accuracies, which all runs share
    """
    right = rng.binomial(UNITS, np.clip(accuracy + difficulty[:, None], 0, 1))
    frame = elements("fold", "head", right=right).assign(direction=None, layer=0, label="A", n=UNITS)
    return frame.assign(control=[[UNITS // 3]] * len(frame), n_control=[[UNITS]] * len(frame))


def groups(rng, pretrained, single, joint):
    """Groups of runs, for all of which folds are as difficult."""
    difficulty = rng.normal(0, 0.05, FOLDS)
    named = {("none", "pretrained"): [pretrained], ("pos", "single"): single, ("pos+x", "tuned"): joint}
    return {
        ("m", *name, "pos"): [table(rng, np.asarray(a), difficulty) for a in accuracies]
        for name, accuracies in named.items()
    }


def test_the_best_head_is_no_maximum_of_noise():
    rng = np.random.default_rng(0)
    same = np.full(144, 0.5)
    found = probes(groups(rng, same, [same] * 3, [same] * 3), 200, 0.95, 0)
    best = found[found["heads"] == "best"]
    assert best["accuracy"].between(0.44, 0.56).all()
    assert (best["control"] == 1 / 3).all() and (best["n"] == FOLDS * UNITS).all()


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
        right = [(nearest(train, a, test, labels) == b).T for a, b in zip(*targets, strict=True)]
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


@pytest.mark.thorough
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


@pytest.mark.thorough
@pytest.mark.parametrize(("seeds", "spread"), [(1, 0.0), (3, 0.03), (5, 0.03)])
def test_intervals_cover_and_p_values_keep_their_level(seeds, spread):
    """Of the accuracy of one head, and of a change that is 0 in the mean of runs."""
    rng = np.random.default_rng(2)
    covered, significant, studies = 0, 0, 160
    for study in range(studies):
        runs = [[[0.5 + each] for each in rng.normal(0, spread, seeds)] for _ in range(2)]
        study_groups = groups(rng, [0.5], *runs)
        rows = probes(study_groups, 120, 0.95, study).query(
            "method == 'single' and heads == 'mean' and label == 'A'"
        )
        covered += rows["accuracy_low"].item() <= 0.5 <= rows["accuracy_high"].item()
        tested = changes(study_groups, 120, 0.95, study).query("heads == 'mean' and label == 'A'")
        row = tested[(tested["before"] == "single")].iloc[0]
        significant += (row["ci_low"] > 0 or row["ci_high"] < 0) if seeds < 3 else row["p_seeds"] < 0.05
    assert 0.91 <= covered / studies <= 0.985
    assert 0.015 <= significant / studies <= 0.09


@pytest.mark.slow
def test_a_clear_change_passes_among_hundreds_of_labels():
    """One of 834 labels, in every fold; the correction never asks for a p that its test cannot give."""
    labels, rng = 834, np.random.default_rng(0)

    def probed(rate: float) -> pd.DataFrame:
        right = rng.binomial(40, 0.5, (FOLDS, labels))
        right[:, 0] = rng.binomial(40, rate, FOLDS)
        rows = elements("fold", "label", right=right).assign(direction=None, layer=0, head=0, n=40)
        return rows.assign(
            label=rows["label"].map("L{:03d}".format), control=[[0]] * len(rows), n_control=[[0]] * len(rows)
        )

    runs = {
        ("m", "none", "pretrained", "pos"): [probed(0.2)],
        ("m", "pos", "single", "pos"): [probed(0.8) for _ in range(3)],
    }
    rows = changes(runs, 120, 0.95, 0).query("heads == 'mean' and label == 'L000'")
    assert len(rows) == 1 and rows["change"].item() > 0.5 and rows["p_holm"].item() < 0.05


@pytest.mark.thorough
@pytest.mark.parametrize("units", [2, 5, 9, 40])
@pytest.mark.parametrize("run_sd", [0, 0.1])
def test_labels_of_few_units_keep_the_level(units, run_sd):
    """Trained runs are alike, so that seeds do not show how units vary; before, as many units are right."""
    rng, folds, p = np.random.default_rng(units), np.arange(units) % FOLDS, []

    def probed(right: np.ndarray) -> pd.DataFrame:
        rows = elements("fold", "head", right=np.bincount(folds, right, FOLDS)[:, None])
        rows = rows.assign(direction=None, layer=0, label="A", n=np.bincount(folds, minlength=FOLDS))
        return rows.assign(control=[[0]] * FOLDS, n_control=[[0]] * FOLDS)

    for study in range(120):
        common = rng.random(units)
        after = [
            probed(
                np.where(rng.random(units) < 0.95, common, rng.random(units)) < 0.6 + rng.normal(0, run_sd)
            )
            for _ in range(3)
        ]
        before = [probed(rng.random(units) < 0.6)]
        found = {("m", "none", "pretrained", "pos"): before, ("m", "pos", "single", "pos"): after}
        rows = changes(found, 120, 0.95, study).query("heads == 'mean' and label == 'A'")
        p.append(rows["p_seeds"].item())
    assert np.mean(np.array(p) <= 0.05) <= 0.09 and np.mean(np.array(p) <= 0.001) <= 0.01
