"""Dissociation of runs: values, what is combined, coverage of intervals, level of tests."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from headspec import tables
from headspec.errors import DataError
from headspec.statistics.chance import marks
from headspec.statistics.dissociation.analysis import case_columns, dissociation_tables
from headspec.statistics.dissociation.pruned import PrunedPredictions, evaluations
from headspec.statistics.dissociation.resampled import (
    ResampledDissociation,
    combine,
    resample_run,
    resample_runs,
)
from headspec.statistics.dissociation.scores import case
from headspec.statistics.resampling import holm, p_value, permuted_scores
from headspec.tasks.metrics import score
from support.data.evaluations import evaluated
from support.schemas import SCHEMAS

FRACTION = 0.3


def pruned(predictions, label, metric="accuracy", **run):
    """A run from {(task, mask): predictions (n,)}."""
    keyed = {
        (task, mask, FRACTION * (mask != "none")): values for (task, mask), values in predictions.items()
    }
    return evaluated(["task", "pruned_for", "fraction"], keyed, label, metric, **run)


def evaluation(accuracy, rng, n=200, seed=0, label=None, metric="accuracy", mixture=None):
    """A run whose predictions under each mask are right with probability accuracy[task][mask]."""
    truth = np.random.default_rng(0).integers(2, size=n) if label is None else label
    predictions = {
        (task, mask): np.where(rng.random(n) < p, truth, 1 - truth)
        for task, masks in accuracy.items()
        for mask, p in masks.items()
    }
    return pruned(predictions, truth, metric, seed=seed, mixture=mixture or "+".join(accuracy))


def pair(base=0.9, same=0.6, other=0.8, **more):
    """A run of two tasks: accuracy without pruning, with the task's heads pruned, with the other's pruned."""
    accuracy = {"a": {"none": base, "a": same, "b": other}, "b": {"none": base, "a": other, "b": same}}
    return evaluation(accuracy, **more)


def study(*runs, resamples=300, fraction=FRACTION, seed=7, **more):
    return dissociation_tables(runs, resamples, 0.95, 0.10, fraction, seed, **more)


def test_estimates_are_those_of_the_pruning_matrix():
    masks = {"none": 0.95, "a": 0.55, "b": 0.9, "c": 0.7}
    one = evaluation(
        {"a": masks, "b": masks | {"a": 0.8}, "c": masks | {"b": 0.6}}, np.random.default_rng(17)
    )
    right = one.read()["label"] == one.read()["prediction"]
    accuracy = right.groupby([one.read()["pruned_for"], one.read()["task"]]).mean().unstack()
    table = study(one)["dissociation"].set_index("task")
    assert table["base"].to_dict() == pytest.approx(accuracy.loc["none"].to_dict())
    ones = one.read().groupby("task")["label"].mean()
    np.testing.assert_allclose(table["chance"], np.maximum(ones, 1 - ones))
    for task, others in {"a": ["b", "c"], "b": ["a", "c"], "c": ["a", "b"]}.items():
        performance = accuracy[task] / accuracy.loc["none", task]
        expected = performance[others].mean() - performance[task]
        assert table.loc[task, "dissociation"] == pytest.approx(expected)
        assert table.loc[task, "ci_low"] < expected < table.loc[task, "ci_high"]


def test_identical_predictions_do_not_dissociate():
    one = pair(rng=np.random.default_rng(0))
    base = one.read()[one.read()["pruned_for"] == "none"]
    same = pd.concat([base, *(base.assign(pruned_for=mask, fraction=FRACTION) for mask in "ab")])
    result = study(PrunedPredictions(one.run, one.metrics, same))
    columns = ["dissociation", "ci_low", "ci_high", "p_value"]
    assert result["dissociation"][columns].to_numpy().tolist() == [[0, 0, 0, 1]] * 2
    assert result["mixtures"][["case", "distinct", "at_chance"]].values.tolist() == [["none", False, False]]


@pytest.mark.parametrize("metric", ["accuracy", "f1", "matthews"])
@pytest.mark.parametrize("sign", [1, -1])
def test_strong_effects_are_distinct_or_inverted(metric, sign):
    same, other = (0.6, 0.8)[::sign]
    result = study(pair(same=same, other=other, rng=np.random.default_rng(0), n=400, metric=metric))
    rows, mixture = result["dissociation"], result["mixtures"].iloc[0]
    assert (sign * rows[["ci_low", "dissociation", "ci_high"]] > 0).all(axis=None)
    assert (rows["dissociation"] < rows["ci_high"]).all() and (rows["p_value"] == 1 / 301).all()
    assert (mixture["case"], mixture["distinct"]) == (("double", True) if sign > 0 else ("inverted", False))
    assert mixture["mean_dissociation"] == pytest.approx(rows["dissociation"].mean())


def test_regression_tasks():
    rng = np.random.default_rng(14)
    truth = rng.normal(size=300)
    noise = {"a": {"none": 0.3, "a": 2, "b": 0.8}, "b": {"none": 0.3, "a": 0.8, "b": 2}}
    predictions = {
        (task, mask): truth + s * rng.normal(size=300)
        for task, masks in noise.items()
        for mask, s in masks.items()
    }
    one = replace(pruned(predictions, truth), metrics={"a": "spearman", "b": "pearson"})
    table = study(one)["dissociation"]
    # correlation of x and x + s * noise: 1 / sqrt(1 + s^2)
    expected = (1 / np.sqrt(1 + 0.8**2) - 1 / np.sqrt(5)) * np.sqrt(1 + 0.3**2)
    assert (table["ci_low"] < expected).all() and (expected < table["ci_high"]).all()
    assert (table["p_value"] == 1 / 301).all()


@pytest.mark.parametrize(("shift", "expected"), [(2.1, "none"), (2.3, "single")])
def test_the_case_of_a_mixture_has_intervals_that_hold_at_once(shift, expected):
    """At 95 % an interval reaches 1.96 standard errors; two that hold at once, 2.24."""
    d = np.array([[shift, 1.9]])
    bootstrap = d + stats.norm.ppf((np.arange(2000) + 0.5) / 2000)[:, None, None]
    run, no = pair(rng=np.random.default_rng(0)).run, np.zeros(2, dtype=bool)
    sampled = ResampledDissociation(run, "", d[0], d[0], d, bootstrap, d, d, bootstrap, no, no, no)
    assert case_columns(sampled, 0.95, 0.1) == {"case": expected, "distinct": False}


@pytest.mark.parametrize("tasks", ["ab", "abc"])
def test_a_list_that_hurts_every_task_more_is_no_single_dissociation(tasks):
    """D of its task is about 0.1 and that of others below 0, which the net D of three tasks shows."""
    rng, cases, net = np.random.default_rng(3), [], []
    for _ in range(8):
        masks = {"none": 0.9} | {mask: 0.7 if mask == "a" else 0.8 for mask in tasks}
        combined = study(evaluation(dict.fromkeys(tasks, masks), rng, 800), resamples=200)["combined"]
        rows = combined.set_index("task")
        assert rows.loc["a", "ci_low"] > 0 > rows.loc["b", "dissociation"]
        assert rows.loc["mean", "net"] == pytest.approx(rows.loc["mean", "dissociation"]) or tasks == "ab"
        cases.append(rows.loc["mean", "case"])
        net.append((rows["net_low"] <= 0) & (rows["net_high"] >= 0) | rows["net"].isna())
    assert cases.count("none") >= 7  # 60 of 60 were single
    assert np.mean(net) > 0.85 and rows["net"].isna().all() == (tasks == "ab")


def test_at_chance_marks_tasks_that_pruning_brought_to_the_most_frequent_class():
    masks = {"none": 0.97, "a": 0.95, "b": 0.95}
    label = np.repeat([0, 1], [240, 60])
    result = study(evaluation({"a": masks, "b": masks | {"a": 0.8}}, np.random.default_rng(6), 300, 0, label))
    assert result["combined"].set_index("task")["at_chance"].to_dict() == {
        "a": False,
        "b": True,
        "mean": True,
    }
    assert result["dissociation"]["at_chance"].tolist() == [False, True]
    assert result["mixtures"]["at_chance"].tolist() == [True]


def test_a_model_that_learnt_nothing_is_marked_and_has_no_case():
    """D compares noise; here the other task's heads seem to matter."""
    label, rng = np.repeat([0.0, 1.0], [190, 110]), np.random.default_rng(8)
    learnt = {
        mask: np.where(rng.random(300) < p, label, 1 - label)
        for mask, p in {"none": 0.95, "a": 0.7, "b": 0.95}.items()
    }
    known = {(task, mask): values for task in "ab" for mask, values in learnt.items()}
    unknown = known | {("b", mask): np.zeros(300) for mask in learnt}
    runs = [pruned(values, label, method="frozen", seed=i) for i, values in enumerate((unknown, known))]
    found = study(*runs)
    expected = {"a": False, "b": True, "mean": True}
    for name in ("combined", "fractions"):
        assert found[name].set_index("task")["unpruned_at_chance"].to_dict() == expected
    assert found["areas"].empty
    marks = found["dissociation"].set_index(["seed", "task"])["unpruned_at_chance"]
    assert marks.to_dict() == {(0, "a"): False, (0, "b"): True, (1, "a"): False, (1, "b"): False}
    mixtures = found["mixtures"].set_index("seed")
    assert mixtures["unpruned_at_chance"].to_dict() == {0: True, 1: False}
    assert mixtures["case"].to_dict() == {0: "chance", 1: "none"} and not mixtures["distinct"].any()
    assert found["combined"].set_index("task").loc["mean", "case"] == "chance"


@pytest.mark.parametrize("metric", ["accuracy", "matthews", "spearman"])
def test_models_far_below_chance_have_a_mark_of_their_own(metric):
    """Three of 40 are right; in the mean over tasks, and over seeds only if all are there."""
    label = np.arange(40) % 2.0
    tasks = {}
    for task, right in {"reversed": 3, "guessed": 19, "learnt": 38}.items():
        values = np.where(np.arange(40) < right, label, 1 - label)
        tasks |= {(task, mask): values for mask in ("none", "reversed", "guessed", "learnt")}
    runs = [pruned(tasks, label, metric, seed=seed) for seed in (0, 1)]
    found = study(*runs, resamples=100)
    expected = {"reversed": "↓", "guessed": "×", "learnt": "", "mean": "↓"}
    for name in ("combined", "fractions"):
        assert dict(zip(found[name]["task"], marks(found[name]), strict=True)) == expected
    assert marks(found["mixtures"]).tolist() == ["↓", "↓"] and set(found["mixtures"]["case"]) == {"chance"}
    assert marks(found["dissociation"]).tolist() == ["↓", "×", ""] * 2
    right = {(task, mask): tasks["learnt", mask] for task, mask in tasks}
    once = study(runs[0], pruned(right, label, metric, seed=1), resamples=100)
    assert marks(once["combined"]).tolist() == ["×", "×", "", "×"]
    assert marks(once["dissociation"]).tolist() == ["↓", "×", "", "", "", ""]


@pytest.mark.thorough
@pytest.mark.parametrize(("metric", "base"), [("accuracy", 0.5), ("f1", 0.3), ("matthews", 0.5)])
def test_most_models_at_chance_are_marked_and_none_that_learnt(metric, base):
    rng, marks = np.random.default_rng(9), []
    guesses = {"none": base, "a": base, "b": base}
    for _ in range(40):
        one = evaluation({"a": guesses, "b": dict.fromkeys(guesses, 0.9)}, rng, metric=metric)
        marks.append(study(one, resamples=200)["dissociation"]["unpruned_at_chance"].to_numpy())
    assert np.mean(marks, axis=0)[0] >= 0.85 and np.mean(marks, axis=0)[1] == 0


# --- level and coverage of single runs


@pytest.mark.thorough
def test_intervals_cover_at_their_level():
    """True D is (0.8 - 0.6) / 0.9; 90 % intervals of 150 runs of two tasks."""
    rng, covered = np.random.default_rng(3), []
    for seed in range(150):
        bounds = resample_run(pair(rng=rng, n=150, seed=seed), [FRACTION], 200, 0.9, seed).at(0).interval(0.9)
        covered.append((bounds.low <= 0.2 / 0.9) & (bounds.high >= 0.2 / 0.9))
    assert 0.85 < np.mean(covered) < 0.95


@pytest.mark.thorough
@pytest.mark.parametrize("k", [2, 3])
def test_p_values_are_uniform_if_no_pruning_differs(k):
    rng, p = np.random.default_rng(4), []
    for _ in range(300):
        label = rng.normal(size=60)
        predictions = label[:, None] + rng.normal(size=60)[:, None] + rng.normal(size=(60, k))
        observed = np.array([[score("pearson", label, column) for column in predictions.T]])
        shuffled = permuted_scores("pearson", label, predictions.T[None], 199, rng)[:, 0]
        d, *null = (m[1:].mean() - m[0] for m in (*observed, *shuffled))
        p.append(float(p_value(d, np.array(null))))
    assert stats.kstest(p, "uniform").pvalue > 0.01


@pytest.mark.thorough
def test_ties_of_few_examples_do_not_make_p_too_small():
    rng = np.random.default_rng(5)
    masks = {"none": 0.9, "a": 0.7, "b": 0.7, "c": 0.7}
    runs = [evaluation(dict.fromkeys("abc", masks), rng, n=100, seed=seed) for seed in range(80)]
    p = study(*runs, resamples=199)["dissociation"]["p_value"]
    assert 0.005 < (p <= 0.05).mean() < 0.07 and 0.3 < (p <= 0.5).mean() < 0.55


# --- seeds


@pytest.mark.parametrize("accuracies", [(0.78, 0.3), (0.78, 0.5, 0.3)])
def test_intervals_of_three_seeds_are_over_seeds_and_of_two_over_examples(accuracies):
    """However much they differ: two seeds say nothing about a third."""
    rng = np.random.default_rng(9)
    result = study(*(pair(same=same, rng=rng, n=300, seed=seed) for seed, same in enumerate(accuracies)))
    combined = result["combined"].set_index("task")
    assert combined["n_seeds"].tolist() == [len(accuracies)] * 3
    widths = combined["ci_high"] - combined["ci_low"]
    for task, rows in result["dissociation"].groupby("task"):
        assert combined.loc[task, "dissociation"] == pytest.approx(rows["dissociation"].mean())
        narrow = widths[task] < (rows["ci_high"] - rows["ci_low"]).max()
        assert narrow == (len(accuracies) == 2)
    if len(accuracies) == 2:
        assert set(combined["ci_over"]) == {"examples"}
    else:
        assert set(combined["ci_over"]) == {"seeds and examples"}
        # t of two degrees of freedom times the standard error of D = (0.8 - own) / 0.9
        expected = 4.303 * np.std(np.array(accuracies) / 0.9, ddof=1) / 3**0.5
        assert (widths / 2).tolist() == pytest.approx([expected] * 3, rel=0.3)
    tasks = combined.loc[["a", "b"]]
    assert pd.isna(tasks[["case", "distinct"]]).all(axis=None)
    assert combined.loc["mean", "case"] == case(tasks["dissociation"], (tasks["ci_low"], tasks["ci_high"]))


@pytest.mark.parametrize("copies", [2, 3])
def test_copies_of_a_seed_add_no_information(copies):
    """Neither to the interval nor to the tests: errors on shared examples do not average out."""
    one = pair(same=0.74, rng=np.random.default_rng(10))
    runs = [replace(one, run=replace(one.run, seed=s)) for s in range(copies)]
    alone, together = (study(*part)["combined"] for part in ([one], runs))
    assert (alone["p_value"] < 1).all() and together["p_value"].tolist() == alone["p_value"].tolist()
    if copies == 2:
        np.testing.assert_allclose(alone[["ci_low", "ci_high"]], together[["ci_low", "ci_high"]], atol=1e-12)
    else:
        widths = [(frame["ci_high"] - frame["ci_low"]).to_numpy() for frame in (alone, together)]
        np.testing.assert_allclose(*widths, rtol=0.1)
    assert together["p_seeds"].notna().all() == (copies > 2)


def seeds_of_a_null(rng, correlation, tasks="ab", n_seeds=3, n=100):
    """Seeds in which prunings differ only by random errors, correlated between seeds by `correlation`."""
    masks = ["none", *tasks]
    shared = rng.normal(size=(len(tasks), len(masks), n))
    label = np.arange(n) % 2
    for seed in range(n_seeds):
        latent = correlation**0.5 * shared + (1 - correlation) ** 0.5 * rng.normal(size=shared.shape)
        predictions = {
            (task, mask): label ^ (latent[t, m] > 0.5)
            for (t, task), (m, mask) in itertools.product(enumerate(tasks), enumerate(masks))
        }
        yield pruned(predictions, label, seed=seed)


@pytest.mark.thorough
@pytest.mark.parametrize("correlation", [0, 0.5, 0.9])
def test_p_values_of_combined_seeds_hold_their_level(correlation):
    rng, found = np.random.default_rng(18), []
    for repeat in range(120):
        seeds = seeds_of_a_null(rng, correlation)
        runs = [resample_run(one, [FRACTION], 100, 0.95, repeat, 199) for one in seeds]
        found.append(combine(runs).at(0).with_mean().p_value)
    p = np.array(found)  # (repeats, two tasks and their mean)
    assert 0.015 < (p <= 0.05).mean() < 0.08
    assert (p <= 0.5).mean() == pytest.approx(0.5, abs=0.07)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("n_seeds", "sd", "fragile"), [(3, 0.03, 0), (3, 0.03, 0.2), (5, 0.03, 0), (3, 0, 0)]
)
def test_p_for_other_seeds_holds_where_only_runs_vary(n_seeds, sd, fragile):
    """Accuracy of every mask varies by `sd`; task `a` loses by `fragile` more, whose heads are pruned or not.

    Three pairs, of which none dissociates: p of these runs says that some does, p for other seeds does not.
    """
    rng, found, shares = np.random.default_rng(n_seeds), [], []
    for repeat in range(60):
        runs = []
        for tasks, seed in itertools.product(("ab", "ac", "bc"), range(n_seeds)):
            masks = {mask: 0.8 + sd * rng.normal(size=2) for mask in tasks}
            accuracy = {
                task: {"none": 0.9} | {mask: masks[mask][t] - fragile * (task == "a") for mask in tasks}
                for t, task in enumerate(tasks)
            }
            runs.append(evaluation(accuracy, rng, n=500, seed=seed))
        means = study(*runs, resamples=120, seed=repeat)["combined"].query("task == 'mean'")
        found.append((means[["p_holm", "p_seeds_holm"]] <= 0.05).any())
        shares.append((means["p_seeds"] <= 0.05).mean())
    by_runs, by_seeds = np.mean(found, axis=0)
    assert by_seeds < 0.05 + 2 * np.sqrt(0.05 * 0.95 / 60) and np.mean(shares) < 0.08
    assert by_runs > 0.3 or sd == 0


@pytest.mark.thorough
def test_five_tasks_without_effect_rarely_dissociate():
    rng, kinds = np.random.default_rng(19), []
    for _ in range(150):
        runs = seeds_of_a_null(rng, 0, "abcde", n_seeds=1, n=160)
        kinds += study(*runs, resamples=200)["mixtures"]["case"].tolist()
    assert kinds.count("single") / len(kinds) < 0.06 and kinds.count("double") == 0
    assert (kinds.count("none") + kinds.count("chance")) / len(kinds) > 0.93


@pytest.mark.thorough
def test_intervals_of_combined_seeds_cover_at_their_level():
    """Accuracy with a task's heads pruned varies between seeds, by about half of the variance of D.

    Errors are independent between seeds, so intervals are conservative.
    """
    rng, covered = np.random.default_rng(20), []
    for repeat in range(120):
        accuracies = 0.6 + 0.045 * rng.normal(size=3)
        runs = [
            resample_run(pair(same=same, rng=rng, n=150, seed=s), [FRACTION], 100, 0.95, repeat, 1)
            for s, same in enumerate(accuracies)
        ]
        bounds = combine(runs).at(0).with_mean().interval(0.95)
        covered.append((bounds.low <= 0.2 / 0.9) & (bounds.high >= 0.2 / 0.9))
    assert 0.93 < np.mean(covered) < 0.995


# --- fractions


@pytest.fixture(scope="module")
def at_fractions():
    """A run whose task's heads are pruned at three fractions; pruning others has no effect."""
    rng, frames = np.random.default_rng(22), []
    for fraction, same in {0.1: 0.85, 0.3: 0.6, 0.5: 0.5}.items():
        one = pair(same=same, other=0.9, rng=rng, n=400)
        frame = one.read().replace({"fraction": {FRACTION: fraction}})
        frames.append(frame[frame["pruned_for"] != "none"] if frames else frame)
    return replace(one, stored=pd.concat(frames, ignore_index=True))


def test_a_fraction_depends_only_on_its_predictions(at_fractions):
    every = study(at_fractions, resamples=200)
    columns = ["fraction", "task", "dissociation", "ci_low", "ci_high", "p_value", "at_chance"]
    rows = at_fractions.read()
    assert every["dissociation"]["fraction"].unique().tolist() == [0.1, 0.3, 0.5]
    for fraction, here in every["dissociation"].groupby("fraction"):
        one = replace(at_fractions, stored=rows[rows["fraction"].isin([0.0, fraction])])
        alone = study(one, resamples=200, fraction=fraction)
        pd.testing.assert_frame_equal(alone["dissociation"][columns], here[columns].reset_index(drop=True))
        np.testing.assert_allclose(here["p_holm"], holm(here["p_value"]))
        assert alone["areas"].empty
        if fraction == FRACTION:
            pd.testing.assert_frame_equal(alone["combined"], every["combined"])
    main = every["fractions"].query("fraction == @FRACTION").reset_index(drop=True)
    pd.testing.assert_frame_equal(main, every["combined"][main.columns], check_dtype=False)


def test_area_is_the_mean_over_fractions_from_zero(at_fractions):
    frozen = replace(at_fractions, run=replace(at_fractions.run, method="frozen"))
    every = study(at_fractions, frozen, resamples=200, fraction=0.1)
    d = every["fractions"].set_index(["method", "task", "fraction"])["dissociation"].sort_index()
    areas = every["areas"].set_index(["method", "task"])
    assert len(areas) == 6 and (areas["ci_low"] > 0).all() and (areas["p_value"] == 1 / 201).all()
    for key, area in areas["area"].items():
        expected = np.trapezoid([0, *d.loc[key]], [0, *d.loc[key].index]) / 0.5
        assert area == pytest.approx(expected)


# --- tables


def test_tables_fit_their_schemas_and_repeat_to_the_byte_in_any_order(tmp_path):
    runs = [pair(rng=np.random.default_rng(16), same=0.77, seed=seed) for seed in range(2)]
    shuffled = [replace(one, stored=one.read().sample(frac=1, random_state=0)) for one in runs[::-1]]
    first = study(*runs)
    for name, frame in first.items():
        tables.write(tmp_path / name, SCHEMAS[name], frame, {})
        assert len(tables.read(tmp_path / name)) == len(frame)
        assert len(frame) or name in ("areas", "shared_fragility")  # only one fraction and model
    for name, frame in study(*shuffled).items():
        tables.write(tmp_path / "again", SCHEMAS[name], frame, {})
        assert (tmp_path / "again").read_bytes() == (tmp_path / name).read_bytes()
    other = study(*runs, seed=8)["dissociation"]
    assert not any(other[column].equals(first["dissociation"][column]) for column in ("ci_low", "p_value"))
    assert all(frame.empty and list(frame) == list(SCHEMAS[name].columns) for name, frame in study().items())


def test_processes_and_other_runs_change_nothing_but_the_correction(tmp_path):
    """Mixtures shared by two processes, one of them read from files, give the tables of one process.

    p is corrected over the study, separately over means.
    """
    rng = np.random.default_rng(0)
    seeds = [pair(same=0.72, rng=rng, n=60, seed=s, mixture=m) for m in ("x", "y") for s in range(3)]
    paths = [str(tmp_path / f"{i}.parquet") for i in range(len(seeds))]
    for path, one in zip(paths, seeds, strict=True):
        tables.write(path, SCHEMAS["predictions"], one.read().assign(probabilities=None), {})
    stored = evaluations([vars(one.run) for one in seeds], seeds[0].metrics, paths)
    one, two = study(*seeds, resamples=100), study(*stored, resamples=100, processes=2)
    for name, frame in one.items():
        pd.testing.assert_frame_equal(frame, two[name])
    alone = study(seeds[0], resamples=100)["dissociation"].drop(columns="p_holm")
    pd.testing.assert_frame_equal(alone, one["dissociation"].head(len(alone)).drop(columns="p_holm"))
    np.testing.assert_allclose(one["dissociation"]["p_holm"], holm(one["dissociation"]["p_value"]))
    for _, rows in one["combined"].groupby(one["combined"]["task"] == "mean"):
        np.testing.assert_allclose(rows["p_holm"], holm(rows["p_value"]))
    with pytest.raises(ValueError, match="apart"):
        study(seeds[0], seeds[3], seeds[1])


def test_runs_on_other_examples_are_drawn_by_themselves_and_seeds_on_them_refused():
    """Methods of a mixture need not be evaluated on the same examples; only their seeds must be."""
    rng = np.random.default_rng(0)
    one, other = (pair(rng=rng, n=n) for n in (60, 80))
    both = resample_runs([one, other], [FRACTION], 50, 0.95, 7)
    for together, run in zip(both, (one, other), strict=True):
        alone = resample_run(run, [FRACTION], 50, 0.95, 7)
        np.testing.assert_array_equal(together.bootstrap, alone.bootstrap)
        np.testing.assert_array_equal(together.null, alone.null)
    with pytest.raises(DataError, match="tuned/seed1/predictions.parquet: validation examples differ from"):
        study(one, replace(other, run=replace(other.run, seed=1)))


@pytest.mark.parametrize("lost, message", [
    (True, "m/a.b/tuned/seed0/predictions.parquet: task 'b' lacks .* 'a'"),
    (False, "task 'b' lacks predictions of some examples under some masks"),
])  # fmt: skip
def test_missing_predictions_are_named(lost, message):
    one = pair(rng=np.random.default_rng(15))
    frame = one.read().copy()
    place = frame.eval("task == 'b' and pruned_for == 'a' and example == 3")
    frame.loc[place, "example"] = 3000
    with pytest.raises(DataError, match=message):
        study(replace(one, stored=frame[~place] if lost else frame))
