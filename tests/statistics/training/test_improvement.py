"""IAT compared with plain training: differences in closed form, pairing, level and coverage."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from headspec import tables
from headspec.config.runs import Run
from headspec.config.sections.iat import IAT
from headspec.config.study import Study
from headspec.config.table_values import MEAN
from headspec.errors import DataError
from headspec.statistics.dissociation.resampled import Evaluation, resample_run
from headspec.statistics.intervals import components, over_seeds_and_examples, p_over_seeds_and_examples
from headspec.statistics.resampling import holm, interval, p_value, paired_differences
from headspec.statistics.training.comparison import Predicted, compare, mean_over_tasks
from headspec.statistics.training.improvement import against, by_seed, clear, improvement, scores
from headspec.statistics.training.specialization import specialization
from headspec.tasks.metrics import score
from headspec.training.schedule import branch_point, rate_share
from support.data.evaluations import evaluated
from support.schemas import SCHEMAS

METRICS = {"a": ["accuracy"], "b": ["accuracy", "f1"]}
SEEDS = (0, 1, 2)


# --- resampling and swapping


def by_row(metric, label, prediction):
    """The metric of every row of labels and predictions (resamples, n), by its textbook formula."""
    if metric == "accuracy":
        return (label == prediction).mean(axis=1)
    if metric == "f1":
        return 2 * (label * prediction).sum(axis=1) / (label + prediction).sum(axis=1)
    if metric == "spearman":
        label, prediction = stats.rankdata(label, axis=1), stats.rankdata(prediction, axis=1)
    x, y = (values - values.mean(axis=1, keepdims=True) for values in (label, prediction))
    return (x * y).sum(axis=1) / np.sqrt((x**2).sum(axis=1) * (y**2).sum(axis=1))


def by_example(metric, label, method, base, resamples, rng):
    """`paired_differences`, with every example drawn and swapped by itself."""
    n, pairs = len(label), list(zip(method, base, strict=True))
    rows, swap = rng.integers(n, size=(resamples, n)), rng.random((resamples, n)) < 0.5
    labels = np.broadcast_to(label, swap.shape)
    bootstrap = [
        by_row(metric, label[rows], a[rows]) - by_row(metric, label[rows], b[rows]) for a, b in pairs
    ]
    null = [
        by_row(metric, labels, np.where(swap, b, a)) - by_row(metric, labels, np.where(swap, a, b))
        for a, b in pairs
    ]
    return np.stack(bootstrap, axis=1), np.stack(null, axis=1)


def binary(rng, n=80, seeds=3):
    """Labels, and predictions of two methods that err on the same hard examples."""
    label = rng.integers(2, size=n).astype(float)
    hard = rng.beta(1, 3, size=n)
    wrong = rng.random((2 * seeds, n)) < hard
    predictions = np.abs(label - wrong)
    return label, predictions[:seeds], predictions[seeds:]


@pytest.mark.parametrize("metric", ["accuracy", "f1", "matthews", "spearman"])
def test_drawing_kinds_of_examples_equals_drawing_examples(metric):
    rng = np.random.default_rng(0)
    label, method, base = binary(rng)
    if metric == "spearman":
        method, base = method + rng.normal(size=method.shape), base + rng.normal(size=base.shape)
    fast, slow = (
        draw(metric, label, method, base, 4000, np.random.default_rng(1))
        for draw in (paired_differences, by_example)
    )
    for one, other in zip(fast, slow, strict=True):
        assert one.shape == other.shape == (4000, 3)
        assert one.mean(axis=0) == pytest.approx(other.mean(axis=0), abs=0.006)
        np.testing.assert_allclose(np.cov(one.T), np.cov(other.T), rtol=0.12, atol=9e-4)


def test_accuracy_in_closed_form():
    """Variance of the mean difference: variance over examples / n; mean square / n when swapped."""
    label, method, base = binary(np.random.default_rng(2), n=200)
    differences = (method == label).mean(axis=0) - (base == label).mean(axis=0)
    bootstrap, null = paired_differences("accuracy", label, method, base, 8000, np.random.default_rng(3))
    assert bootstrap.mean() == pytest.approx(differences.mean(), abs=0.001)
    assert bootstrap.mean(axis=1).std() == pytest.approx(differences.std() / 200**0.5, rel=0.03)
    assert null.mean() == pytest.approx(0, abs=0.001)
    assert null.mean(axis=1).std() == pytest.approx((differences**2).mean() ** 0.5 / 200**0.5, rel=0.03)


def test_seeds_that_predict_the_same_add_no_information():
    label, method, base = binary(np.random.default_rng(4), seeds=1)
    draw = [
        paired_differences("f1", label, np.repeat(method, s, 0), np.repeat(base, s, 0), 50, rng)
        for s, rng in ((1, np.random.default_rng(5)), (3, np.random.default_rng(5)))
    ]
    for one, three in zip(*draw, strict=True):
        np.testing.assert_array_equal(np.repeat(one, 3, axis=1), three)


@pytest.mark.slow
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


# --- the table


def run(method, seed=0, mixture="a+b", tasks=("a", "b")):
    return Run(model="m", mixture=mixture, tasks=tasks, method=method, seed=seed)


def rows(task, label, predictions):
    """A table `evaluation` of one task for each seed."""
    columns = {"task": task, "example": np.arange(len(label)), "label": label}
    return [pd.DataFrame(columns | {"prediction": prediction}) for prediction in predictions]


def study(**iat) -> Study:
    task = {"source": "x", "train_examples": 5}
    return Study(
        study="s", seeds=list(SEEDS), models={"m": {"source": "x"}}, tasks={"a": task, "b": task},
        mixtures={"pairs": ["a", "b"]}, iat=IAT(mixtures=["a+b"], **iat),
    )  # fmt: skip


def evaluate(
    planned: Study, n: int = 120, seed: int | list[int] = 0, spread: float = 0.0, **right: float
) -> dict[Run, pd.DataFrame]:
    """Evaluations of all runs; `right`: {method: accuracy}, 0.8 by default, which varies by `spread`."""
    rng = np.random.default_rng(seed)
    labels = {task: rng.integers(2, size=n).astype(float) for task in planned.tasks}
    evaluations = {}
    for each in planned.iat_runs:
        accuracy = right.get(each.method.replace("-", "_"), 0.8) + spread * rng.normal(
            size=(len(each.tasks), 1)
        )
        wrong = rng.random((len(each.tasks), n)) > accuracy
        frames = [
            rows(t, labels[t], np.abs(labels[t] - w)[None])[0] for t, w in zip(each.tasks, wrong, strict=True)
        ]
        evaluations[each] = pd.concat(frames, ignore_index=True)
    return evaluations


def analysed(planned: Study, evaluations: dict[Run, pd.DataFrame], resamples: int = 300) -> pd.DataFrame:
    table = scores(((r, evaluations[r]) for r in planned.iat_runs), planned.variants, METRICS, {})
    return improvement(
        table, planned.iat_runs, evaluations.__getitem__, planned.variants, METRICS, resamples, 0.95, 7
    )


SWEPT = study(controls=["random", "lora"], alphas=[0.3, 0.5], samplings=["sqrt"])


def test_methods_of_comparison():
    assert against(SWEPT.variants) == {
        "iat": "tuned", "iat-random": "tuned", "lora": "tuned", "iat-alpha0.5-delta0.1": "tuned",
        "tuned-sqrt": "tuned", "iat-sqrt": "tuned-sqrt", "single": "tuned",
    }  # fmt: skip


def test_rewarmed_ends_are_compared_with_plain_training_at_the_same_rates():
    planned = study(controls=["no-dropout"], deltas=[0.2], rate="rewarmed", samplings=["sqrt"])
    assert against(planned.variants) == {
        "iat": "rewarmed", "no-dropout": "rewarmed", "rewarmed": "tuned",
        "iat-alpha0.3-delta0.2": "rewarmed-delta0.2", "rewarmed-delta0.2": "tuned",
        "tuned-sqrt": "tuned", "iat-sqrt": "rewarmed-sqrt", "rewarmed-sqrt": "tuned-sqrt", "single": "tuned",
    }  # fmt: skip


def test_values_and_differences_are_those_of_the_predictions():
    evaluations = evaluate(SWEPT, iat=0.9, tuned_sqrt=0.6)
    table = analysed(SWEPT, evaluations).set_index(["method", "task", "metric"])
    others = against(SWEPT.variants)

    def value(method, task, metric, seed):
        single = method == "single"
        key = run(method, seed, task if single else "a+b", (task,) if single else ("a", "b"))
        frame = evaluations[key].query("task == @task")
        return score(metric, frame["label"], frame["prediction"])

    keys = [(task, metric) for task, names in METRICS.items() for metric in names]
    assert set(table.index) == set(
        itertools.chain(*([(m, *k) for k in [*keys, (MEAN, MEAN)]] for m in ["tuned", *others]))
    )
    for method in ("tuned", *others):
        values_of = {key: np.array([value(method, *key, s) for s in SEEDS]) for key in keys}
        values_of[MEAN, MEAN] = (
            values_of["a", "accuracy"] + (values_of["b", "accuracy"] + values_of["b", "f1"]) / 2
        ) / 2
        if method in others:
            base = {key: np.array([value(others[method], *key, s) for s in SEEDS]) for key in keys}
            base[MEAN, MEAN] = (base["a", "accuracy"] + (base["b", "accuracy"] + base["b", "f1"]) / 2) / 2
        for key, values in values_of.items():
            row = table.loc[(method, *key)]
            assert row["value"] == pytest.approx(values.mean()) and row["n_seeds"] == 3
            if method == "tuned":
                assert row[["against", "difference", "ci_low", "ci_over", "p_value", "p_holm"]].isna().all()
            else:
                differences = values - base[key]
                assert row["against"] == others[method]
                assert row["difference"] == pytest.approx(differences.mean())
                assert row["ci_low"] < row["difference"] < row["ci_high"]
    clear = table.loc[("iat", MEAN, MEAN)]
    assert clear["ci_over"] == "seeds and examples" and clear["p_value"] == 1 / 301
    assert table.loc[("iat-sqrt", MEAN, MEAN), "difference"] > 0.1
    assert table.loc[("iat-alpha0.5-delta0.1", MEAN, MEAN), "alpha"] == 0.5


def test_corrections_over_tasks_of_a_method_and_over_means_of_methods():
    table = analysed(SWEPT, evaluate(SWEPT, iat=0.83, seed=1))
    means = table[table["task"] == MEAN]
    np.testing.assert_allclose(means["p_holm"], holm(means["p_value"]))
    for _, part in table[table["task"] != MEAN].groupby("method"):
        np.testing.assert_allclose(part["p_holm"], holm(part["p_value"]))


def test_p_over_seeds_belongs_to_the_interval_and_is_corrected_over_the_study():
    """p is below 0.05 where the 95 % interval leaves 0 out; means of variants are a family of their own."""
    table = analysed(SWEPT, evaluate(SWEPT, iat=0.83, iat_sqrt=0.9, tuned_sqrt=0.7, seed=3))
    compared = table[table["against"].notna()]
    clear = (compared["ci_low"] > 0) | (compared["ci_high"] < 0)
    assert (clear == (compared["p_seeds"] < 0.05)).all() and 0 < clear.sum() < len(clear)
    assert table.loc[table["against"].isna(), "p_seeds"].isna().all()
    variant_means = (table["task"] == MEAN) & table["heads"].notna()
    assert variant_means.sum() == 5 and (~variant_means & table["p_seeds"].notna()).sum() == 4 * 7 - 5
    for family in (variant_means, ~variant_means):
        np.testing.assert_allclose(table.loc[family, "p_seeds_holm"], holm(table.loc[family, "p_seeds"]))


@pytest.mark.parametrize("seeds", [3, 10])
@pytest.mark.slow
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


def test_a_difference_of_two_ways_that_learnt_nothing_is_no_finding():
    """One says the rarer class of a, the other the more frequent one; b is learnt by both."""
    planned = study()
    evaluations = evaluate(planned)
    for each, frame in evaluations.items():
        rows_of_a = frame["task"] == "a"
        frame.loc[rows_of_a, "label"] = np.where(np.arange(rows_of_a.sum()) % 10 < 3, 1.0, 0.0)
        frame.loc[rows_of_a, "prediction"] = float(each.method != "iat")
    found = analysed(planned, evaluations)
    rows = found[found["method"] == "iat"].set_index(["task", "metric"])
    assert rows["unpruned_at_chance"].to_dict() == {
        ("a", "accuracy"): True, ("b", "accuracy"): False, ("b", "f1"): False, (MEAN, MEAN): False,
    }  # fmt: skip
    apart = rows.loc[("a", "accuracy")]
    assert apart["p_seeds_holm"] < 0.05 and apart["ci_low"] > 0
    assert not clear(rows)["a", "accuracy"] and clear(rows.assign(unpruned_at_chance=False))["a", "accuracy"]
    better = {
        each: frame.assign(prediction=frame["label"])
        for each, frame in evaluations.items()
        if each.method == "iat"
    }
    gained = analysed(planned, evaluations | better)
    assert not gained.set_index(["method", "task", "metric"]).loc[
        ("iat", "a", "accuracy"), "unpruned_at_chance"
    ]


def test_components_of_the_variance_add_up_to_the_interval():
    """Which is t times the root of their sum, with a whole number of degrees of freedom."""
    rng = np.random.default_rng(0)
    values = 0.01 + 0.05 * rng.normal(size=5)
    bootstrap = values + 0.01 * rng.normal(size=(400, 1)) + 0.01 * rng.normal(size=(400, 5))
    parts = components(values, bootstrap)
    assert min(parts) > 0.005
    error = np.sqrt((parts.seeds**2 + parts.both**2) / 5 + parts.examples**2)
    low, high, _ = over_seeds_and_examples(values, bootstrap, 0.95)
    reaches = stats.t.ppf(0.975, np.arange(4, 200)) * error
    assert np.isclose(reaches, (high - low) / 2, rtol=1e-9).any()
    assert np.isclose(
        2 * stats.t.sf(values.mean() / error, np.arange(4, 200)), p_over_seeds_and_examples(values, bootstrap)
    ).any()


@pytest.mark.parametrize("delta", [0, 0.1, 0.3])
def test_share_of_the_rates_after_the_branch(delta):
    """A linear decay leaves k (k + 1) of n (n + 1) to its last k of n steps; others as they are given."""
    k = 50 - branch_point(50, delta)
    assert rate_share(delta, 2e-5, 0, "linear", None, 50) == pytest.approx(k * (k + 1) / (50 * 51))
    assert rate_share(delta, 2e-5, 0, "constant", None) == pytest.approx(delta)
    again = k * (k + 1) / 2 / k if k else 0  # at the same peak: 1, 2, ... k of k
    before = sum(range(k + 1, 51)) / 50
    assert rate_share(delta, 2e-5, 0, "linear", 2e-5, 50) == pytest.approx(again / (before + again))


def test_methods_with_a_branch_have_a_share():
    few = study(controls=[])
    table = scores(evaluate(few).items(), few.variants, METRICS, {"iat": 0.25}).set_index("method")
    assert (table.loc["iat", "rate_share"] == 0.25).all() and table.loc["tuned", "rate_share"].isna().all()


def test_other_methods_change_only_the_correction():
    few = study(controls=["random"])
    evaluations = evaluate(SWEPT, iat=0.85)
    tables = [analysed(planned, evaluations) for planned in (few, SWEPT)]
    both = [table.drop(columns=["p_holm", "p_seeds_holm"]) for table in tables]
    shared = both[1][both[1]["method"].isin(both[0]["method"])]
    pd.testing.assert_frame_equal(both[0], shared.reset_index(drop=True))


def test_a_method_with_the_predictions_of_its_base_does_not_differ():
    few = study(controls=[])
    evaluations = evaluate(few)
    for seed in SEEDS:
        evaluations[run("iat", seed)] = evaluations[run("tuned", seed)]
    table = analysed(few, evaluations).query("method == 'iat'")
    columns = ["difference", "ci_low", "ci_high"]
    assert (table[columns] == 0).all(axis=None) and (table["p_value"] == 1).all()


@pytest.mark.slow
def test_intervals_over_seeds_cover_differences_at_their_level():
    """The difference varies between seeds about as much as with the examples."""
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
        table = scores(((r, evaluations[r]) for r in few.iat_runs), few.variants, METRICS, {})
        result = improvement(
            table, few.iat_runs, evaluations.__getitem__, few.variants, METRICS, 100, 0.95, repeat
        )
        (row,) = result.query("method == 'iat' and task == @MEAN").to_dict("records")
        covered.append(row["ci_low"] <= 0 <= row["ci_high"])
    assert np.mean(covered) > 0.9


def test_further_splits_are_tasks():
    few = study(controls=[])
    evaluations = {
        key: pd.concat([frame, frame[frame["task"] == "a"].assign(task="a-other")])
        for key, frame in evaluate(few).items()
    }
    metrics = METRICS | {"a-other": ["accuracy"]}
    table = scores(evaluations.items(), few.variants, metrics, {})
    result = improvement(table, few.iat_runs, evaluations.get, few.variants, metrics, 100, 0.95, 0)
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
        (
            lambda f: f.assign(label=1 - f["label"]),
            "iat/seed1/evaluation.parquet: validation examples of task 'a' differ",
        ),
    ],
)
def test_other_examples_are_refused(change, message):
    few = study(controls=[])
    evaluations = evaluate(few)
    evaluations[run("iat", 1)] = change(evaluations[run("iat", 1)])
    with pytest.raises(DataError, match=message):
        analysed(few, evaluations)


def test_a_task_that_one_method_lacks_is_named_with_both_runs():
    label, x, y = binary(np.random.default_rng(0), n=20)
    both = {task: Predicted(run("tuned"), np.arange(20.0), label, x) for task in METRICS}
    lacking = {"a": Predicted(run("iat"), np.arange(20.0), label, y)}
    paths = run("iat").path, run("tuned").path
    for method, base in ((both, lacking), (lacking, both)):
        with pytest.raises(DataError) as caught:
            compare(method, base, METRICS, 9, 0)
        assert str(caught.value) == f"{paths[0]}/evaluation.parquet: no task 'b', which {paths[1]} has"


def test_the_table_fits_its_schema_and_repeats_to_the_byte(tmp_path):
    evaluations = evaluate(SWEPT)
    for name in ("one", "two"):
        tables.write(tmp_path / name, SCHEMAS["improvement"], analysed(SWEPT, evaluations, 100), {})
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert len(tables.read(tmp_path / "one")) == 8 * 4


def test_differences_by_seed_average_to_the_table():
    evaluations = evaluate(SWEPT)
    seeds = by_seed(
        scores(evaluations.items(), SWEPT.variants, METRICS, {}), SWEPT.mixture_tasks, SWEPT.variants
    )
    assert len(seeds) == 8 * 4 * 3
    keys = ["method", "task", "metric"]
    table = analysed(SWEPT, evaluations, 100).set_index(keys)["difference"]
    np.testing.assert_allclose(seeds.groupby(keys)["difference"].mean()[table.index], table)


# --- dissociation before and after


def pruned(method: str, seed: int, same: float, other: float = 0.9, n: int = 200) -> Evaluation:
    """Accuracies with a task's heads pruned (`same`), and with the other task's heads pruned (`other`)."""
    rng, label = np.random.default_rng([seed, len(method)]), np.arange(n) % 2.0
    predictions = {}
    for task, mask in itertools.product("ab", ("none", "a", "b")):
        p = 0.95 if mask == "none" else same if mask == task else other
        predictions[task, mask, 0.3 * (mask != "none")] = np.abs(label - (rng.random(n) > p))
    return evaluated(["task", "pruned_for", "fraction"], predictions, label, method=method, seed=seed)


def test_specialization_is_the_difference_of_dissociation():
    runs = [pruned("tuned", s, 0.85) for s in SEEDS] + [pruned("iat", s, 0.7) for s in SEEDS]
    table = specialization(runs, "tuned", 0.3, 400, 0.95, 7).set_index("task")
    d = {
        method: np.array(
            [resample_run(e, [0.3], 100, 0.95, 0, 0).mean[0] for e in runs if e.run.method == method]
        )
        for method in ("tuned", "iat")
    }
    assert list(table.index) == ["a", "b", MEAN]
    for i, task in enumerate("ab"):
        assert table.loc[task, "before"] == pytest.approx(d["tuned"][:, i].mean())
        assert table.loc[task, "after"] == pytest.approx(d["iat"][:, i].mean())
    mean = table.loc[MEAN]
    assert mean["difference"] == pytest.approx((d["iat"] - d["tuned"]).mean())
    assert mean["n_seeds"] == 3 and 0 < mean["ci_low"] < mean["difference"] < mean["ci_high"]
    assert not table["at_chance"].any() and not table["unpruned_at_chance"].any()


def test_specialization_pairs_seeds_and_examples():
    """If IAT changes nothing, the difference does not vary, however much seeds and examples do."""
    runs = [pruned("tuned", s, 0.6 + 0.1 * s) for s in SEEDS]
    same = [Evaluation(run("iat", e.run.seed), e.metrics, e.predictions) for e in runs]
    table = specialization([*runs, *same], "tuned", 0.3, 100, 0.95, 7)
    columns = ["difference", "ci_low", "ci_high"]
    assert (table[columns] == 0).all(axis=None) and (table["before"] == table["after"]).all()


def test_specialization_at_chance_is_marked(tmp_path):
    table = specialization([pruned("tuned", 0, 0.8), pruned("iat", 0, 0.3)], "tuned", 0.3, 200, 0.95, 0)
    assert table["at_chance"].all() and not table["unpruned_at_chance"].any()
    assert set(table["ci_over"]) == {"examples"}
    tables.write(tmp_path / "t", SCHEMAS["specialization"], table, {})
    assert len(tables.read(tmp_path / "t")) == 3
