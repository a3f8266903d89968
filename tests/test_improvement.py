"""IAT against plain training: differences in closed form, pairing, the level of tests and intervals."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from headspec import tables
from headspec.comparison import MEAN, compare, mean_over_tasks, predicted
from headspec.errors import DataError
from headspec.improvement import against, by_seed, improvement, scores
from headspec.metrics import score
from headspec.resampled import Evaluation, sample
from headspec.resampling import holm, interval, p_value, paired_differences
from headspec.runs import Run
from headspec.sections import IAT
from headspec.specialization import specialization
from headspec.study import Study
from schemas import SCHEMAS

METRICS = {"a": ["accuracy"], "b": ["accuracy", "f1"]}
SEEDS = (0, 1, 2)


# --- drawing and swapping


def one_by_one(metric, label, method, base, resamples, rng):
    """`paired_differences` as its docstring has it, an example at a time."""
    n, pairs = len(label), list(zip(method, base, strict=True))
    bootstrap, null = [], []
    for _ in range(resamples):
        rows, swap = rng.integers(n, size=n), rng.random(n) < 0.5
        bootstrap.append(
            [score(metric, label[rows], a[rows]) - score(metric, label[rows], b[rows]) for a, b in pairs]
        )
        null.append(
            [
                score(metric, label, np.where(swap, b, a)) - score(metric, label, np.where(swap, a, b))
                for a, b in pairs
            ]
        )
    return np.array(bootstrap), np.array(null)


def binary(rng, n=80, seeds=3):
    """Labels, and predictions of two methods that err on the same hard examples."""
    label = rng.integers(2, size=n).astype(float)
    hard = rng.beta(1, 3, size=n)
    wrong = rng.random((2 * seeds, n)) < hard
    predictions = np.abs(label - wrong)
    return label, predictions[:seeds], predictions[seeds:]


@pytest.mark.parametrize("metric", ["accuracy", "f1", "matthews", "spearman"])
def test_drawing_kinds_of_examples_is_drawing_examples(metric):
    rng = np.random.default_rng(0)
    label, method, base = binary(rng)
    if metric == "spearman":
        method, base = method + rng.normal(size=method.shape), base + rng.normal(size=base.shape)
    fast, slow = (
        draw(metric, label, method, base, 4000, np.random.default_rng(1))
        for draw in (paired_differences, one_by_one)
    )
    for one, other in zip(fast, slow, strict=True):
        assert one.shape == other.shape == (4000, 3)
        assert one.mean(axis=0) == pytest.approx(other.mean(axis=0), abs=0.006)
        np.testing.assert_allclose(np.cov(one.T), np.cov(other.T), rtol=0.12, atol=9e-4)


def test_accuracy_in_closed_form():
    """Mean over seeds of the difference: variance of examples / n, and mean square / n when swapped."""
    label, method, base = binary(np.random.default_rng(2), n=200)
    right = (method == label).mean(axis=0) - (base == label).mean(axis=0)
    bootstrap, null = paired_differences("accuracy", label, method, base, 8000, np.random.default_rng(3))
    assert bootstrap.mean() == pytest.approx(right.mean(), abs=0.001)
    assert bootstrap.mean(axis=1).std() == pytest.approx(right.std() / 200**0.5, rel=0.03)
    assert null.mean() == pytest.approx(0, abs=0.001)
    assert null.mean(axis=1).std() == pytest.approx((right**2).mean() ** 0.5 / 200**0.5, rel=0.03)


def test_seeds_that_predict_the_same_say_no_more_than_one():
    label, method, base = binary(np.random.default_rng(4), seeds=1)
    draw = [
        paired_differences("f1", label, np.repeat(method, s, 0), np.repeat(base, s, 0), 50, rng)
        for s, rng in ((1, np.random.default_rng(5)), (3, np.random.default_rng(5)))
    ]
    for one, three in zip(*draw, strict=True):
        np.testing.assert_array_equal(np.repeat(one, 3, axis=1), three)


def test_p_holds_its_level_over_examples():
    """Two methods as good as each other, two tasks, three seeds that err on the same examples."""
    rng, p, covered = np.random.default_rng(6), [], []
    for seed in range(300):
        frames = {}
        for task in METRICS:
            label, *both = binary(rng, n=60)
            for method, predictions in zip("xy", both, strict=True):
                frames.setdefault(method, []).append(rows(task, label, predictions))
        x, y = (
            predicted((run(method, s), pd.concat([f[s] for f in frames[method]])) for s in SEEDS)
            for method in "xy"
        )
        samples, null = compare(x, y, METRICS, 199, seed)[MEAN, MEAN]
        observed = mean_over_tasks(
            {(t, m): difference(m, x[t], y[t]) for t, names in METRICS.items() for m in names}
        )
        p.append(float(p_value(observed, null)))
        low, high = interval(samples.mean(axis=1), 0.95)
        covered.append(low <= 0 <= high)
    assert 0.02 < np.mean(np.array(p) <= 0.05) < 0.09
    assert 0.4 < np.mean(np.array(p) <= 0.5) < 0.6
    assert np.mean(covered) > 0.9


def difference(metric, one, other):
    pairs = zip(one.prediction, other.prediction, strict=True)
    return np.mean([score(metric, one.label, a) - score(metric, one.label, b) for a, b in pairs])


def test_mean_over_tasks_is_of_the_means_of_their_metrics():
    values = {("a", "accuracy"): 0.9, ("b", "accuracy"): 0.6, ("b", "f1"): 0.4}
    assert mean_over_tasks(values) == pytest.approx((0.9 + 0.5) / 2)
    arrays = {key: np.array([value, 0]) for key, value in values.items()}
    assert mean_over_tasks(arrays) == pytest.approx([0.7, 0])


# --- the table


def run(method, seed=0, mixture="a+b", tasks=("a", "b")):
    return Run(model="m", mixture=mixture, tasks=tasks, method=method, seed=seed)


def rows(task, label, predictions):
    """A table `evaluation` of one task for every seed."""
    columns = {"task": task, "example": np.arange(len(label)), "label": label}
    return [pd.DataFrame(columns | {"prediction": prediction}) for prediction in predictions]


def study(**iat) -> Study:
    task = {"source": "x", "train_examples": 5}
    return Study(
        study="s", seeds=list(SEEDS), models={"m": {"source": "x"}}, tasks={"a": task, "b": task},
        mixtures={"pairs": ["a", "b"]}, iat=IAT(mixtures=["a+b"], **iat),
    )  # fmt: skip


def made(own: Study, n: int = 120, seed: int = 0, **right: float) -> dict[Run, pd.DataFrame]:
    """Evaluations of all runs, right with a probability of their method's, 0.8 by default."""
    rng = np.random.default_rng(seed)
    labels = {task: rng.integers(2, size=n).astype(float) for task in own.tasks}
    found = {}
    for each in own.iat_runs:
        wrong = rng.random((len(each.tasks), n)) > right.get(each.method.replace("-", "_"), 0.8)
        frames = [
            rows(t, labels[t], np.abs(labels[t] - w)[None])[0] for t, w in zip(each.tasks, wrong, strict=True)
        ]
        found[each] = pd.concat(frames, ignore_index=True)
    return found


def analysed(own: Study, evaluations: dict[Run, pd.DataFrame], resamples: int = 300) -> pd.DataFrame:
    table = scores(((r, evaluations[r]) for r in own.iat_runs), own.variants, METRICS)
    return improvement(
        table, own.iat_runs, evaluations.__getitem__, own.variants, METRICS, resamples, 0.95, 7
    )


SWEPT = study(controls=["random", "lora"], alphas=[0.3, 0.5], samplings=["sqrt"])


def test_what_is_compared_with_what():
    assert against(SWEPT.variants) == {
        "iat": "tuned", "iat-random": "tuned", "lora": "tuned", "iat-alpha0.5-delta0.1": "tuned",
        "tuned-sqrt": "tuned", "iat-sqrt": "tuned-sqrt", "single": "tuned",
    }  # fmt: skip


def test_values_and_differences_are_those_of_the_predictions():
    evaluations = made(SWEPT, iat=0.9, tuned_sqrt=0.6)
    found = analysed(SWEPT, evaluations).set_index(["method", "task", "metric"])
    others = against(SWEPT.variants)

    def value(method, task, metric, seed):
        single = method == "single"
        key = run(method, seed, task if single else "a+b", (task,) if single else ("a", "b"))
        frame = evaluations[key].query("task == @task")
        return score(metric, frame["label"], frame["prediction"])

    keys = [(task, metric) for task, names in METRICS.items() for metric in names]
    assert set(found.index) == set(
        itertools.chain(*([(m, *k) for k in [*keys, (MEAN, MEAN)]] for m in ["tuned", *others]))
    )
    for method in ("tuned", *others):
        of = {key: np.array([value(method, *key, s) for s in SEEDS]) for key in keys}
        of[MEAN, MEAN] = (of["a", "accuracy"] + (of["b", "accuracy"] + of["b", "f1"]) / 2) / 2
        if method in others:
            base = {key: np.array([value(others[method], *key, s) for s in SEEDS]) for key in keys}
            base[MEAN, MEAN] = (base["a", "accuracy"] + (base["b", "accuracy"] + base["b", "f1"]) / 2) / 2
        for key, values in of.items():
            row = found.loc[(method, *key)]
            assert row["value"] == pytest.approx(values.mean()) and row["n_seeds"] == 3
            if method == "tuned":
                assert row[["against", "difference", "ci_low", "ci_over", "p_value", "p_holm"]].isna().all()
            else:
                differences = values - base[key]
                assert row["against"] == others[method]
                assert row["difference"] == pytest.approx(differences.mean())
                assert row["ci_low"] < row["difference"] < row["ci_high"]
    clear = found.loc[("iat", MEAN, MEAN)]
    assert clear["ci_over"] == "seeds and examples" and clear["p_value"] == 1 / 301
    assert found.loc[("iat-sqrt", MEAN, MEAN), "difference"] > 0.1
    assert found.loc[("iat-alpha0.5-delta0.1", MEAN, MEAN), "alpha"] == 0.5


def test_corrections_are_over_a_methods_tasks_and_over_the_means_of_the_methods():
    found = analysed(SWEPT, made(SWEPT, iat=0.83, seed=1))
    means = found[found["task"] == MEAN]
    np.testing.assert_allclose(means["p_holm"], holm(means["p_value"]))
    for _, part in found[found["task"] != MEAN].groupby("method"):
        np.testing.assert_allclose(part["p_holm"], holm(part["p_value"]))


def test_other_methods_change_only_the_correction():
    few = study(controls=["random"])
    evaluations = made(SWEPT, iat=0.85)
    both = [analysed(own, evaluations).drop(columns="p_holm") for own in (few, SWEPT)]
    shared = both[1][both[1]["method"].isin(both[0]["method"])]
    pd.testing.assert_frame_equal(both[0], shared.reset_index(drop=True))


def test_a_method_that_predicts_as_its_base_does_not_differ():
    few = study(controls=[])
    evaluations = made(few)
    for seed in SEEDS:
        evaluations[run("iat", seed)] = evaluations[run("tuned", seed)]
    found = analysed(few, evaluations).query("method == 'iat'")
    columns = ["difference", "ci_low", "ci_high"]
    assert (found[columns] == 0).all(axis=None) and (found["p_value"] == 1).all()


@pytest.mark.parametrize(
    ("seeds", "over"), [([0], "examples"), ([0, 1], "examples"), ([0, 1, 2], "seeds and examples")]
)
def test_what_the_interval_is_over(seeds, over):
    few = study(controls=[]).model_copy(update={"seeds": seeds})
    found = analysed(few, made(few)).query("method == 'iat'")
    assert set(found["ci_over"]) == {over}
    assert (found["ci_low"] < found["ci_high"]).all()


def test_intervals_over_seeds_cover_differences_at_their_level():
    """The difference of a method varies with the seed, by about as much as with the examples."""
    few, rng, covered = study(controls=[]), np.random.default_rng(8), []
    labels = {task: rng.integers(2, size=100).astype(float) for task in few.tasks}
    for repeat in range(60):
        evaluations = {}
        for each in few.iat_runs:
            right = 0.7 + (0.04 * rng.normal() if each.method == "iat" else 0)
            frames = [
                rows(t, labels[t], np.abs(labels[t] - (rng.random(100) > right))[None])[0] for t in each.tasks
            ]
            evaluations[each] = pd.concat(frames, ignore_index=True)
        table = scores(((r, evaluations[r]) for r in few.iat_runs), few.variants, METRICS)
        found = improvement(
            table, few.iat_runs, evaluations.__getitem__, few.variants, METRICS, 100, 0.95, repeat
        )
        (row,) = found.query("method == 'iat' and task == @MEAN").to_dict("records")
        covered.append(row["ci_low"] <= 0 <= row["ci_high"])
    assert np.mean(covered) > 0.9


def test_further_splits_are_tasks():
    few = study(controls=[])
    evaluations = {
        key: pd.concat([frame, frame[frame["task"] == "a"].assign(task="a-other")])
        for key, frame in made(few).items()
    }
    metrics = METRICS | {"a-other": ["accuracy"]}
    table = scores(evaluations.items(), few.variants, metrics)
    found = improvement(table, few.iat_runs, evaluations.get, few.variants, metrics, 100, 0.95, 0)
    for method, part in found.groupby("method"):
        values = part.set_index(["task", "metric"])["value"]
        assert values["a-other", "accuracy"] == values["a", "accuracy"], method
        b = (values["b", "accuracy"] + values["b", "f1"]) / 2
        assert values[MEAN, MEAN] == pytest.approx((2 * values["a", "accuracy"] + b) / 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f[f["example"] != 3], "m/a.b/iat/seed1/evaluation.parquet: task 'a' has other validation"),
        (lambda f: f[f["task"] != "b"], "task 'b' lacks a seed of m/a.b/iat"),
        (lambda f: f.assign(label=1 - f["label"]), "iat/seed1/evaluation.parquet: task 'a' has other"),
    ],
)
def test_other_examples_are_refused(change, message):
    few = study(controls=[])
    evaluations = made(few)
    evaluations[run("iat", 1)] = change(evaluations[run("iat", 1)])
    with pytest.raises(DataError, match=message):
        analysed(few, evaluations)


def test_the_table_fits_its_schema_and_repeats_to_the_byte(tmp_path):
    evaluations = made(SWEPT)
    for name in ("one", "two"):
        tables.write(tmp_path / name, SCHEMAS["improvement"], analysed(SWEPT, evaluations, 100), {})
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert len(tables.read(tmp_path / "one")) == 8 * 4


def test_differences_by_seed_average_to_the_table():
    evaluations = made(SWEPT)
    seeds = by_seed(scores(evaluations.items(), SWEPT.variants, METRICS), SWEPT.mixture_tasks, SWEPT.variants)
    assert len(seeds) == 8 * 4 * 3
    keys = ["method", "task", "metric"]
    found = analysed(SWEPT, evaluations, 100).set_index(keys)["difference"]
    np.testing.assert_allclose(seeds.groupby(keys)["difference"].mean()[found.index], found)


# --- dissociation before and after


def pruned(method: str, seed: int, own: float, other: float = 0.9, n: int = 200) -> Evaluation:
    """Right with these probabilities when a task's own and the other's heads are pruned."""
    rng, label = np.random.default_rng([seed, len(method)]), np.arange(n) % 2.0
    frames = []
    for task, mask in itertools.product("ab", ("none", "a", "b")):
        p = 0.95 if mask == "none" else own if mask == task else other
        prediction = np.abs(label - (rng.random(n) > p))
        columns = {"task": task, "pruned_for": mask, "example": np.arange(n), "label": label}
        part = 0.0 if mask == "none" else 0.3
        frames.append(pd.DataFrame(columns | {"prediction": prediction, "fraction": part}))
    return Evaluation(run(method, seed), dict.fromkeys("ab", "accuracy"), pd.concat(frames))


def test_specialization_is_the_difference_of_dissociation():
    runs = [pruned("tuned", s, 0.85) for s in SEEDS] + [pruned("iat", s, 0.7) for s in SEEDS]
    found = specialization(runs, "tuned", 0.3, 400, 0.95, 7).set_index("task")
    d = {
        method: np.array([sample(e, [0.3], 100, 0.95, 0, 0).mean[0] for e in runs if e.run.method == method])
        for method in ("tuned", "iat")
    }
    assert list(found.index) == ["a", "b", MEAN]
    for i, task in enumerate("ab"):
        assert found.loc[task, "before"] == pytest.approx(d["tuned"][:, i].mean())
        assert found.loc[task, "after"] == pytest.approx(d["iat"][:, i].mean())
    mean = found.loc[MEAN]
    assert mean["difference"] == pytest.approx((d["iat"] - d["tuned"]).mean())
    assert mean["n_seeds"] == 3 and 0 < mean["ci_low"] < mean["difference"] < mean["ci_high"]
    assert not found["floor"].any()


def test_specialization_draws_seeds_and_examples_in_pairs():
    """What IAT does not change does not vary, however much seeds and examples do."""
    runs = [pruned("tuned", s, 0.6 + 0.1 * s) for s in SEEDS]
    same = [Evaluation(run("iat", e.run.seed), e.metrics, e.predictions) for e in runs]
    found = specialization([*runs, *same], "tuned", 0.3, 100, 0.95, 7)
    columns = ["difference", "ci_low", "ci_high"]
    assert (found[columns] == 0).all(axis=None) and (found["before"] == found["after"]).all()


def test_specialization_at_the_floor_is_marked(tmp_path):
    found = specialization([pruned("tuned", 0, 0.8), pruned("iat", 0, 0.3)], "tuned", 0.3, 200, 0.95, 0)
    assert found["floor"].all()
    assert set(found["ci_over"]) == {"examples"}
    tables.write(tmp_path / "t", SCHEMAS["specialization"], found, {})
    assert len(tables.read(tmp_path / "t")) == 3
