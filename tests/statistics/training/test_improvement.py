"""IAT compared with plain training: differences in closed form, pairing, level and coverage."""

import itertools

import numpy as np
import pandas as pd
import pytest

from headspec import tables
from headspec.config.runs import Run
from headspec.config.sections.iat import IAT
from headspec.config.study import Study
from headspec.config.values import MEAN
from headspec.errors import DataError
from headspec.statistics.comparison import Predicted, compare, mean_over_tasks
from headspec.statistics.improvement import against, by_seed, iat_scores, improvement
from headspec.statistics.intervals import clear
from headspec.statistics.resampling import holm, interval, p_value
from headspec.tasks.metrics import score
from headspec.training.schedule import branch_point, rate_share
from support.data.evaluations import binary
from support.schemas import SCHEMAS

METRICS = {"a": ["accuracy"], "b": ["accuracy", "f1"]}
KEYS = [(task, metric) for task, names in METRICS.items() for metric in names]
ROW = ["method", "task", "metric"]
SEEDS = (0, 1, 2)


def run(method, seed=0):
    return Run(model="m", mixture="a+b", tasks=("a", "b"), method=method, seed=seed)


def study(**iat) -> Study:
    task = {"source": "x", "train_examples": 5}
    return Study(
        study="s", seeds=list(SEEDS), models={"m": {"source": "x"}}, tasks={"a": task, "b": task},
        mixtures={"pairs": ["a", "b"]}, iat=IAT(mixtures=["a+b"], **iat),
    )  # fmt: skip


FEW = study(controls=[])
SWEPT = study(controls=["random", "lora"], alphas=[0.3, 0.5], samplings=["sqrt"])


def evaluation(labels: dict[str, np.ndarray], wrong: np.ndarray) -> pd.DataFrame:
    """A table `evaluation` of tasks with `wrong` (tasks, n) predictions."""
    columns = ({"task": t, "example": np.arange(len(y)), "label": y} for t, y in labels.items())
    frames = [
        pd.DataFrame(each | {"prediction": np.abs(each["label"] - w)})
        for each, w in zip(columns, wrong, strict=True)
    ]
    return pd.concat(frames, ignore_index=True)


def evaluate(
    planned: Study, n: int = 120, seed: int | list[int] = 0, spread: float = 0.0, **right: float
) -> dict[Run, pd.DataFrame]:
    """Evaluations of all runs; `right`: {method: accuracy}, 0.8 by default, which varies by `spread`."""
    rng = np.random.default_rng(seed)
    labels = {task: rng.integers(2, size=n).astype(float) for task in planned.tasks}
    evaluations = {}
    for each in planned.iat_runs:
        own = {task: labels[task] for task in each.tasks}
        accuracy = right.get(each.method.replace("-", "_"), 0.8) + spread * rng.normal(size=(len(own), 1))
        evaluations[each] = evaluation(own, rng.random((len(own), n)) > accuracy)
    return evaluations


def analysed(
    planned: Study,
    evaluations: dict[Run, pd.DataFrame],
    resamples: int = 300,
    metrics: dict[str, list[str]] = METRICS,
    seed: int = 7,
) -> pd.DataFrame:
    shares = {"iat": 0.25}
    return improvement(
        planned.iat_runs,
        evaluations.__getitem__,
        [*planned.variants.values()],
        metrics,
        shares,
        resamples,
        0.95,
        seed,
    )


def leaderboard(values):
    return (values["a", "accuracy"] + (values["b", "accuracy"] + values["b", "f1"]) / 2) / 2


def test_methods_of_comparison():
    """With rewarmed rates, methods are compared with plain training at the same rates."""
    assert against([*SWEPT.variants.values()]) == {
        "iat": "tuned", "iat-random": "tuned", "lora": "tuned", "iat-alpha0.5-delta0.1": "tuned",
        "tuned-sqrt": "tuned", "iat-sqrt": "tuned-sqrt", "single": "tuned",
    }  # fmt: skip
    planned = study(controls=["no-dropout"], deltas=[0.2], rate="rewarmed", samplings=["sqrt"])
    assert against([*planned.variants.values()]) == {
        "iat": "rewarmed", "no-dropout": "rewarmed", "rewarmed": "tuned",
        "iat-alpha0.3-delta0.2": "rewarmed-delta0.2", "rewarmed-delta0.2": "tuned",
        "tuned-sqrt": "tuned", "iat-sqrt": "rewarmed-sqrt", "rewarmed-sqrt": "tuned-sqrt", "single": "tuned",
    }  # fmt: skip


def test_values_and_differences_are_those_of_the_predictions():
    evaluations = evaluate(SWEPT, iat=0.9, tuned_sqrt=0.6)
    table, others = analysed(SWEPT, evaluations).set_index(ROW), against([*SWEPT.variants.values()])

    def values(method):
        """Of every seed, by task and metric."""
        found = {}
        for task, metric in KEYS:
            runs = [r for r in evaluations if r.method == method and task in r.tasks]
            frames = [evaluations[r] for r in sorted(runs, key=lambda r: r.seed)]
            frames = [frame[frame["task"] == task] for frame in frames]
            found[task, metric] = np.array([score(metric, f["label"], f["prediction"]) for f in frames])
        return found | {(MEAN, MEAN): leaderboard(found)}

    by_method = {method: values(method) for method in ("tuned", *others)}
    assert set(table.index) == {(method, *key) for method in by_method for key in by_method["tuned"]}
    for (method, *key), row in table.iterrows():
        value = by_method[method][tuple(key)]
        assert row["value"] == pytest.approx(value.mean()) and row["n_seeds"] == 3
        if method == "tuned":
            assert row[["against", "difference", "ci_low", "ci_over", "p_value", "p_holm"]].isna().all()
        else:
            base = by_method[others[method]][tuple(key)]
            assert row["against"] == others[method]
            assert row["difference"] == pytest.approx((value - base).mean())
            assert row["ci_low"] < row["difference"] < row["ci_high"]
    found = table.loc[("iat", MEAN, MEAN)]
    assert found["ci_over"] == "seeds and examples" and found["p_value"] == 1 / 301
    assert table.loc[("iat-sqrt", MEAN, MEAN), "difference"] > 0.1
    assert table.loc[("iat-alpha0.5-delta0.1", MEAN, MEAN), "alpha"] == 0.5
    assert (table.loc["iat", "rate_share"] == 0.25).all() and table.loc["tuned", "rate_share"].isna().all()
    seeds = by_seed(
        iat_scores(evaluations.items(), [*SWEPT.variants.values()], METRICS, {}),
        SWEPT.mixture_tasks,
        [*SWEPT.variants.values()],
    )
    assert len(seeds) == 8 * 4 * 3
    np.testing.assert_allclose(seeds.groupby(ROW)["difference"].mean()[table.index], table["difference"])


def test_p_are_corrected_and_p_over_seeds_belongs_to_the_interval():
    """p over seeds is below 0.05 only where the 95 % interval leaves 0 out.

    p of models: corrected over tasks of a method, and over means of methods. p over seeds: over the study,
    where means of variants are a family of their own.
    """
    table = analysed(SWEPT, evaluate(SWEPT, iat=0.83, iat_sqrt=0.9, tuned_sqrt=0.7, seed=3))
    family = table["method"].where(table["task"] != MEAN, MEAN)
    variant_means = (table["task"] == MEAN) & table["heads"].notna()
    assert variant_means.sum() == 5 and (~variant_means & table["p_seeds"].notna()).sum() == 4 * 7 - 5
    for column, by in {"p_value": family, "p_seeds": variant_means}.items():
        corrected = "p_holm" if column == "p_value" else "p_seeds_holm"
        for _, part in table.groupby(by):
            np.testing.assert_allclose(part[corrected], holm(part[column]))
    compared = table[table["against"].notna()]
    outside = (compared["ci_low"] > 0) | (compared["ci_high"] < 0)
    small = compared["p_seeds"] < 0.05
    assert outside[small].all() and small.any() and not outside.all()
    assert table.loc[table["against"].isna(), "p_seeds"].isna().all()


@pytest.mark.thorough
def test_p_holds_its_level_over_examples():
    """Two equally good methods, two tasks, three seeds that err on the same examples."""
    rng, p, covered = np.random.default_rng(6), [], []
    for seed in range(300):
        x, y = {}, {}
        for task in METRICS:
            label, *both = binary(rng, n=60)
            for method, name, predictions in zip((x, y), "xy", both, strict=True):
                method[task] = Predicted(run(name), np.arange(60.0), label, predictions)
        samples, null = compare(x, y, METRICS, 199, seed)[MEAN, MEAN]
        differences = {
            (task, metric): np.mean([
                score(metric, x[task].label, a) - score(metric, x[task].label, b)
                for a, b in zip(x[task].prediction, y[task].prediction, strict=True)
            ])
            for task, metric in KEYS
        }  # fmt: skip
        p.append(float(p_value(mean_over_tasks(differences), null)))
        low, high = interval(samples.mean(axis=1), 0.95)
        covered.append(low <= 0 <= high)
    assert 0.02 < np.mean(np.array(p) <= 0.05) < 0.09
    assert 0.4 < np.mean(np.array(p) <= 0.5) < 0.6
    assert np.mean(covered) > 0.9


@pytest.mark.parametrize("seeds", [2, 3, 10])
@pytest.mark.thorough
def test_tasks_are_rarely_clear_where_only_runs_vary(seeds):
    """All runs are equally good except for chance, which varies as much between runs as over examples."""
    planned = study(controls=["random"]).model_copy(update={"seeds": list(range(seeds))})
    found, by_models = [], []
    for study_number in range(60):
        table = analysed(planned, evaluate(planned, 150, [seeds, study_number], 0.04), 100)
        task_rows = table[table["task"] != MEAN]
        found.append(clear(task_rows).any())
        by_models.append((task_rows["p_holm"] < 0.05).any())
    assert np.mean(by_models) > 0.15  # permuted predictions say nothing of other runs
    assert np.mean(found) < 0.05 + 2 * np.sqrt(0.05 * 0.95 / len(found))


@pytest.mark.thorough
def test_intervals_over_seeds_cover_differences_at_their_level():
    """The difference varies between seeds about as much as with the examples."""
    rng, covered = np.random.default_rng(8), []
    labels = {task: rng.integers(2, size=100).astype(float) for task in FEW.tasks}
    for repeat in range(60):
        evaluations = {}
        for each in FEW.iat_runs:
            right = 0.7 + (0.04 * rng.normal() if each.method == "iat" else 0)
            own = {task: labels[task] for task in each.tasks}
            evaluations[each] = evaluation(own, rng.random((len(own), 100)) > right)
        found = analysed(FEW, evaluations, 100, seed=repeat)
        (row,) = found.query("method == 'iat' and task == @MEAN").to_dict("records")
        covered.append(row["ci_low"] <= 0 <= row["ci_high"])
    assert np.mean(covered) > 0.9


def test_a_difference_of_two_ways_that_learnt_nothing_is_no_finding():
    """One says the rarer class of a, the other the more frequent one; b is learnt by both."""
    evaluations = evaluate(FEW)
    for each, frame in evaluations.items():
        rows_of_a = frame["task"] == "a"
        frame.loc[rows_of_a, "label"] = np.where(np.arange(rows_of_a.sum()) % 10 < 3, 1.0, 0.0)
        frame.loc[rows_of_a, "prediction"] = float(each.method != "iat")
    rows = analysed(FEW, evaluations).set_index(ROW).loc["iat"]
    assert rows["unpruned_at_chance"].to_dict() == {
        ("a", "accuracy"): True, ("b", "accuracy"): False, ("b", "f1"): False, (MEAN, MEAN): False,
    }  # fmt: skip
    apart = rows.loc[("a", "accuracy")]
    assert apart["p_seeds_holm"] < 0.05 and apart["ci_low"] > 0
    assert not clear(rows)["a", "accuracy"] and clear(rows.assign(unpruned_at_chance=False))["a", "accuracy"]
    for each, frame in evaluations.items():
        if each.method == "iat":  # has learnt
            frame["prediction"] = frame["label"]
    gained = analysed(FEW, evaluations).set_index(ROW)
    assert not gained.loc[("iat", "a", "accuracy"), "unpruned_at_chance"]


@pytest.mark.parametrize("delta", [0, 0.1, 0.3])
def test_share_of_the_rates_after_the_branch(delta):
    """A linear decay leaves k (k + 1) of n (n + 1) to its last k of n steps; others as they are given."""
    k = 50 - branch_point(50, delta)
    assert rate_share(delta, 2e-5, 0, "linear", None, 50) == pytest.approx(k * (k + 1) / (50 * 51))
    assert rate_share(delta, 2e-5, 0, "constant", None) == pytest.approx(delta)
    again = k * (k + 1) / 2 / k if k else 0  # at the same peak: 1, 2, ... k of k
    before = sum(range(k + 1, 51)) / 50
    assert rate_share(delta, 2e-5, 0, "linear", 2e-5, 50) == pytest.approx(again / (before + again))


def test_other_methods_change_only_the_correction_and_the_same_predictions_do_not_differ(tmp_path):
    """The table repeats to the byte."""
    few, evaluations = study(controls=["random"]), evaluate(SWEPT, iat=0.85)
    for seed in SEEDS:
        evaluations[run("iat-random", seed)] = evaluations[run("tuned", seed)]
    swept = analysed(SWEPT, evaluations, 100)
    for name, table in {"one": swept, "two": analysed(SWEPT, evaluations, 100)}.items():
        tables.write(tmp_path / name, SCHEMAS["improvement"], table, {})
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert len(tables.read(tmp_path / "one")) == 8 * 4
    one, two = (
        table.drop(columns=["p_holm", "p_seeds_holm"]) for table in (analysed(few, evaluations, 100), swept)
    )
    pd.testing.assert_frame_equal(one, two[two["method"].isin(one["method"])].reset_index(drop=True))
    same = one[one["method"] == "iat-random"]
    assert (same[["difference", "ci_low", "ci_high"]] == 0).all(axis=None) and (same["p_value"] == 1).all()


def test_further_splits_are_tasks():
    evaluations = {
        key: pd.concat([frame, frame[frame["task"] == "a"].assign(task="a-other")])
        for key, frame in evaluate(FEW).items()
    }
    result = analysed(FEW, evaluations, 100, METRICS | {"a-other": ["accuracy"]})
    for method, part in result.groupby("method"):
        values = part.set_index(["task", "metric"])["value"]
        assert values["a-other", "accuracy"] == values["a", "accuracy"], method
        b = (values["b", "accuracy"] + values["b", "f1"]) / 2
        assert values[MEAN, MEAN] == pytest.approx((2 * values["a", "accuracy"] + b) / 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda f: f[f["example"] != 3],
            "m/a.b/iat/seed1/evaluation.parquet: validation examples of task 'a' differ",
        ),
        (lambda f: f[f["task"] != "b"], "number of seeds with task 'b' differs between m/a.b/iat"),
        (lambda f: f.assign(label=1 - f["label"]), "iat/seed1/evaluation.parquet: validation examples"),
    ],
)
def test_other_examples_are_refused(change, message):
    evaluations = evaluate(FEW)
    evaluations[run("iat", 1)] = change(evaluations[run("iat", 1)])
    with pytest.raises(DataError, match=message):
        analysed(FEW, evaluations)


def test_a_task_that_one_method_lacks_is_named_with_both_runs():
    label, x, y = binary(np.random.default_rng(0), n=20)
    both = {task: Predicted(run("tuned"), np.arange(20.0), label, x) for task in METRICS}
    lacking = {"a": Predicted(run("iat"), np.arange(20.0), label, y)}
    message = f"^{run('iat').path}/evaluation.parquet: no task 'b', which {run('tuned').path} has$"
    for method, base in itertools.permutations((both, lacking)):
        with pytest.raises(DataError, match=message.replace("+", r"\+")):
            compare(method, base, METRICS, 9, 0)
