"""Users' pruning matrices in a notebook: the same numbers as in studies, parts, refusals, levels."""

import itertools
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy import stats

import headspec
from headspec import tables
from headspec.statistics.dissociation.analysis import SCHEMAS, dissociation_tables
from headspec.statistics.dissociation.counts import dealt, nested
from headspec.statistics.dissociation.notebook import right_answers
from headspec.statistics.dissociation.parts import fragility, least_p, p_specific, sums_of_squares
from headspec.statistics.resampling import holm
from support.data.evaluations import evaluated
from support.data.matrices import TASKS, additive, answers, counted, multiplied

FEW = {"resamples": 200}


@pytest.fixture
def examples() -> pd.DataFrame:
    """Answers of three tasks at two sizes, of two seeds."""
    rng = np.random.default_rng(0)
    frames = [
        answers(additive(rng, 3, lists=0.1, own=own), 40, rng).assign(heads=heads, seed=seed)
        for seed, (heads, own) in itertools.product((3, 5), ((8, 0.1), (16, 0.3)))
    ]
    rows = pd.concat(frames, ignore_index=True)
    return rows[(rows["pruned_for"] != "none") | (rows["heads"] == 8)].reset_index(drop=True)


def test_answers_have_the_numbers_of_a_study(examples):
    runs = []
    for seed, rows in examples.groupby("seed"):
        rows = rows.assign(fraction=rows["heads"].where(rows["pruned_for"] != "none", 0.0))
        keyed = rows.groupby(["task", "pruned_for", "fraction"], sort=False)["right"]
        predictions = {key: values.to_numpy() for key, values in keyed}
        given = {"metric": right_answers(0), "model": "", "mixture": "given", "seed": seed}
        runs.append(evaluated(["task", "pruned_for", "fraction"], predictions, **given))
    tables = dissociation_tables(runs, 200, 0.95, 0.1, 16.0, 0)
    found = headspec.dissociate(examples, **FEW)
    columns = ["dissociation", "ci_low", "ci_high", "p_value"]
    by = ["heads", "task"]
    studied = tables["fractions"].rename(columns={"fraction": "heads"}).set_index(by)[columns]
    mine = found.dropna(subset="heads").set_index(by)[columns]
    pd.testing.assert_frame_equal(mine.sort_index(), studied.sort_index())
    area = tables["areas"].set_index("task")[["area", "ci_low", "ci_high"]]
    np.testing.assert_allclose(found[found["heads"].isna()].set_index("task")[columns[:3]], area)
    main = tables["combined"].set_index("task")
    mine = found[found["heads"] == 16].set_index("task")
    np.testing.assert_allclose(mine["net"], main["net"])
    assert mine["p_specific"]["mean"] == main["p_specific"]["mean"]
    assert mine["verdict"]["mean"].startswith(main["case"]["mean"])
    metrics = mine.drop(index="mean")
    np.testing.assert_allclose(metrics["dissociation"].mean(), mine["dissociation"]["mean"])
    one_seed = examples[examples["seed"] == 3]
    single = headspec.dissociate(one_seed, **FEW).query("heads == 16 and task != 'mean'")
    lost = (single["others"] - single["own"]) / single["base"]
    np.testing.assert_allclose(single["dissociation"], lost)


@pytest.mark.parametrize(("k", "models"), [(2, 3), (3, 2), (4, 3), (5, 1)])
def test_shared_fragility_is_that_of_a_study(k, models, tmp_path):
    """Of its models, in mixtures of three tasks or more, over seeds."""
    rng, runs, frames = np.random.default_rng(k), [], []
    for model, seed in itertools.product("abc"[:models], (3, 5)):
        rows = answers(additive(rng, k, tasks=0.2), 30, rng).assign(heads=8, model=model, seed=seed)
        rows["fraction"] = 0.3 * (rows["pruned_for"] != "none")
        frames.append(rows.drop(columns="fraction"))
        keyed = rows.groupby(["task", "pruned_for", "fraction"], sort=False)["right"]
        predictions = {key: values.to_numpy() for key, values in keyed}
        given = {"metric": right_answers(0), "model": model, "mixture": "given", "seed": seed}
        runs.append(evaluated(["task", "pruned_for", "fraction"], predictions, **given))
    studied = dissociation_tables(runs, 20, 0.95, 0.1, 0.3, 0)["shared_fragility"]
    tables.write(tmp_path / "table", SCHEMAS["shared_fragility"], studied, {})
    assert len(tables.read(tmp_path / "table")) == len(studied)
    if k < 3 or models == 1:
        assert studied.empty
        return
    found = headspec.shared_fragility(pd.concat(frames, ignore_index=True))
    assert studied["models"].tolist() == found["models"].tolist()
    np.testing.assert_allclose(studied[["r", "r2"]], found[["r", "r2"]])
    np.testing.assert_allclose(studied["p_value"], found["p_value"], atol=0.05)  # triples are drawn
    np.testing.assert_allclose(studied["p_holm"], holm(studied["p_value"]))
    assert studied["n_models"].tolist() == [2] if models == 2 else [2, 2, 2, 3]


def test_counts_are_unpaired_and_say_so(examples):
    paired = headspec.dissociate(examples, **FEW)
    counts = counted(examples)
    found = headspec.dissociate(counts, **FEW)
    unnamed = headspec.dissociate(examples.drop(columns="example"), **FEW)
    pd.testing.assert_frame_equal(found, unnamed)
    for name in ("base", "own", "others", "to_others", "dissociation", "net"):
        np.testing.assert_allclose(found[name], paired[name], atol=1e-12)
    assert set(found["ci_over"]) == {"examples, unpaired"} and set(paired["ci_over"]) == {"examples"}
    told = "3 tasks are too few to test whether lists are specific: no p below 0.17"
    assert found["why"].iloc[-1] == f"{told}; counts do not show which examples fail"
    assert told in paired["why"].iloc[-1] and paired["specific"].isna().all()
    means = found["task"] == "mean"
    wide, least = (found[means][high] - found[means][low] for low, high in
                   (("ci_low", "ci_high"), ("same_low", "same_high")))  # fmt: skip
    between = paired[means]["ci_high"] - paired[means]["ci_low"]
    assert (least < between).all() and (between < wide * 1.1).all()


def test_counts_are_dealt_as_answers_are_permuted():
    rng = np.random.default_rng(1)
    k, n, right = 3, 20, np.array([31, 7, 31])
    shares = dealt(right, k, n, 20_000, rng) * n
    assert (shares.sum(axis=-1) == right).all() and (shares[:, 0] == shares[:, 2]).all()
    law = stats.hypergeom(k * n, 31, n)
    for place in range(k):
        counts = np.bincount(shares[:, 0, place].round().astype(int), minlength=n + 1)
        assert np.abs(counts / 20_000 - law.pmf(np.arange(n + 1))).max() < 0.015
    drawn = nested(right[1:] - 11 * (right[1:] > n), n, 20_000, rng) * n
    assert (drawn[:, 0] <= drawn[:, 1]).all()
    np.testing.assert_allclose(drawn.var(axis=0), stats.binom(n, [7 / n, 1]).var(), atol=0.15)


@pytest.mark.parametrize(("draws", "said"), [
    (0, "19 random sets are needed"), (1, "1 random set: no p below 0.5; 19 are needed"),
    (18, "18 random sets: no p below 0.053; 19 are needed"), (19, ""),
])  # fmt: skip
def test_a_list_is_important_beside_enough_random_sets(draws, said):
    rng = np.random.default_rng(2)
    rows = counted(answers(additive(rng, 3, own=0.5), 200, rng))
    sets = [
        {"pruned_for": "random", "draw": draw, "task": task, "right": 180 + draw % 3, "n": 200}
        for draw in range(draws)
        for task in "abc"
    ]
    found = headspec.dissociate(pd.concat([rows, pd.DataFrame(sets)]), **FEW).set_index("task")
    assert found["why"]["a"] == said
    assert found["verdict"]["a"] == (None if said else "important")
    assert found["verdict"]["mean"] == "double, distinct"
    assert draws == 0 or found["p_random"]["a"] == 1 / (1 + draws)


def test_values_have_intervals_over_seeds_alone():
    rng = np.random.default_rng(3)
    values = {s: additive(rng, 3, own=0.2) + rng.normal(0, 0.05, (3, 3)) for s in range(4)}
    rows = [
        {"seed": s, "pruned_for": source, "task": task, "value": 1.0 if source == "none" else by_list[j]}
        for s, matrix in values.items()
        for source, by_list in zip(("none", *"abc"), (None, *matrix), strict=True)
        for j, task in enumerate("abc")
    ]
    found = headspec.dissociate(pd.DataFrame(rows), **FEW).set_index("task").loc["mean"]
    means = [(m.sum() - np.trace(m)) / 6 - np.trace(m) / 3 for m in values.values()]
    low, high = stats.t.interval(0.95, 3, np.mean(means), stats.sem(means))
    np.testing.assert_allclose([found["ci_low"], found["ci_high"]], [low, high])
    assert found["ci_over"] == "seeds" and np.isnan(found["p_value"])
    one = headspec.dissociate(pd.DataFrame(rows).query("seed == 0"), **FEW).set_index("task").loc["mean"]
    assert one["verdict"] is None and "no interval" in one["why"] and np.isnan(one["ci_low"])
    assert one["dissociation"] == pytest.approx(means[0])


def test_parts_add_up_and_find_what_a_matrix_was_made_of():
    rng = np.random.default_rng(4)
    k = 6
    any_matrix = rng.random((k, k))
    total = np.square(any_matrix - any_matrix.mean()).sum()
    assert sums_of_squares(any_matrix).sum() == pytest.approx(total)
    lists, tasks = rng.random((2, k))
    made = 0.5 + lists[:, None] + tasks
    source, target, own, rest = sums_of_squares(made)
    assert (source, target) == pytest.approx((k * k * lists.var(), k * k * tasks.var()))
    assert (own, rest) == pytest.approx((0, 0))
    diagonal = sums_of_squares(made - 0.3 * np.eye(k))
    assert diagonal[2] == pytest.approx(0.09 * (k - 1)) and diagonal[3] == pytest.approx(0)
    harmed = fragility(made - np.diag(rng.random(k)))
    np.testing.assert_allclose(harmed, tasks.mean() - tasks)
    assert np.isnan(fragility(any_matrix[:2, :2])).all()


def test_parts_of_counts_have_their_tests():
    rng = np.random.default_rng(5)
    made = {"source": {"lists": 0.15}, "target": {"tasks": 0.15}, "own": {"own": 0.3}}
    for part, effects in made.items():
        rows = counted(answers(additive(rng, 5, **effects), 300, rng))
        parts = headspec.decompose(rows, **FEW).set_index("part")
        assert parts["share"].sum() == pytest.approx(1) and parts["share"].idxmax() == part
        assert (parts["p_value"].dropna() < 0.05).to_dict() == {name: name == part for name in made}
    few = headspec.decompose(counted(answers(additive(rng, 3, own=0.3), 300, rng)), **FEW).set_index("part")
    assert few["why"]["own"] == "3 tasks: no p below 0.17" and few["p_value"]["own"] > 0.16
    values = rows.assign(value=rows["right"] / rows["n"]).drop(columns=["right", "n"])
    without = headspec.decompose(values, **FEW).set_index("part")
    assert without["p_value"].notna().to_dict() == {name: name == "own" for name in without.index}
    assert without["why"]["source"] == "neither n nor examples"


@pytest.mark.parametrize("k", [4, 5, 9])
def test_neither_strong_lists_nor_fragile_tasks_are_specific(k):
    """However they combine: what is the same function of the list in every task has the largest p."""
    rng = np.random.default_rng(k)
    strength, fragility = np.sort(rng.random((2, k)), axis=1)  # the worst: strong lists of fragile tasks
    for made in (1 - strength[:, None] * fragility, 1 - strength[:, None] - fragility, np.ones((k, k))):
        assert p_specific(made, 0) == 1
    own = 1 - strength[:, None] * fragility * (1 + 9 * np.eye(k))
    assert p_specific(own, 0) == pytest.approx(least_p(k)) and p_specific(2 - own, 0) > 0.5
    noise = rng.normal(size=(k, k))
    scaled = noise * rng.uniform(0.1, 9, k) + rng.normal(size=k)
    assert p_specific(noise, 0) == p_specific(scaled, 0)
    assert np.isnan(p_specific(np.where(np.eye(k), np.nan, noise), 0))


@pytest.mark.parametrize(("k", "specific", "said"), [
    (2, None, "2 tasks are too few to test whether lists are specific: no p below 0.5"),
    (3, None, "3 tasks are too few to test whether lists are specific: no p below 0.17"),
    (4, True, ""), (9, True, ""),
])  # fmt: skip
def test_lists_are_specific_where_enough_tasks_can_tell(k, specific, said):
    rng = np.random.default_rng(k)
    rows = answers(additive(rng, k, lists=0.1, own=0.4), 100, rng)
    mean, own = headspec.dissociate(rows, **FEW).iloc[-1], headspec.decompose(rows, **FEW).set_index("part")
    assert mean["why"] == said and (mean["specific"] is specific or pd.isna(mean["specific"]))
    assert mean["p_specific"] == own["p_value"]["own"] == least_p(k)
    for changed in ({"chance": 0.94}, {"confidence": 0.99} if k == 4 else {"chance": 0.95}):
        assert pd.isna(headspec.dissociate(rows, **changed, **FEW).iloc[-1]["specific"])


def test_fragility_is_shared_by_models_or_not():
    rng = np.random.default_rng(6)
    weak, strong = np.linspace(0, 0.4, 6), rng.permutation(np.linspace(0, 0.4, 6))
    made = {"one": 0.9 - weak, "two": 0.8 - weak / 3, "other": 0.9 - strong}
    lists = {name: rng.normal(0, 0.1, 6) for name in made}
    frames = [
        pd.DataFrame({"model": name, "pruned_for": source, "task": target,
                      "value": [1.0 if source == "none" else tasks[j] + lists[name][TASKS.index(source)]]})
        for name, tasks in made.items()
        for source, (j, target) in itertools.product(("none", *TASKS[:6]), enumerate(TASKS[:6]))
    ]  # fmt: skip
    shared = headspec.shared_fragility(pd.concat(frames)).set_index("models")
    assert shared.loc["one, two", "r2"] == pytest.approx(1) and shared.loc["one, two", "p_value"] < 0.01
    expected = stats.pearsonr(weak, strong)[0]
    assert shared.loc["one, other", "r"] == pytest.approx(expected)
    assert shared.loc["one, two, other", "r"] == pytest.approx((1 + 2 * expected) / 3)
    alone = pd.concat(frames).query("model == 'one'")
    with pytest.raises(ValueError, match="expected at least two models and 3 tasks"):
        headspec.shared_fragility(alone)


def bad(change, said):
    return pytest.param(change, said, id=said[:40])


@pytest.mark.parametrize(("change", "said"), [
    bad(lambda m: m.drop(columns="right").rename(columns={"n": "m"}), "no column 'right'"),
    bad(lambda m: m.rename(columns={"pruned_for": "pruned"}), "Did you mean 'pruned'"),
    bad(lambda m: m[m["pruned_for"] != "b"], r"no row with heads of task 'b' pruned \(pruned_for 'b'\)"),
    bad(lambda m: m.replace({"pruned_for": {"b": "bb"}}), "Did you mean 'bb'"),
    bad(lambda m: m[m["pruned_for"] != "none"], "no row with no heads pruned"),
    bad(lambda m: m.drop(index=6), "no row of task 'b' with pruned_for 'b' at size 8"),
    bad(lambda m: m.assign(right=m["right"].mask(m.index == 5, 41)), "row 5 has right 41 of n 40"),
    bad(lambda m: m.assign(right=m["right"].mask(m.index == 5, 0.5)), "row 5 has right 0.5 of n 40"),
    bad(lambda m: m.assign(right=m["right"].mask(m.index == 5)), "row 5 has no right"),
    bad(lambda m: m.assign(n=m["n"].mask(m.index == 6, 80)), "row 6 has 80 answers to task 'b', expected"),
    bad(lambda m: m.assign(heads=m["heads"].mask(m.index == 5, 9)), "at size"),
    bad(lambda m: m.assign(heads=m["heads"].mask(m.index == 5, 0)), "row 5 prunes no heads"),
    bad(lambda m: m.assign(heads=m["heads"].mask(m.index == 5)), "row 5 has no heads"),
    bad(lambda m: m.assign(right=m["right"].astype(object).mask(m.index == 2, "x")), "row 2 has right 'x'"),
    bad(lambda m: pd.concat([m, m.iloc[[3]].set_axis(["again"])]), "row 'again' repeats"),
    bad(lambda m: m.drop(columns="n"), "for counts add the column n"),
    bad(lambda m: m[m["task"] == "a"], r"got 1 task \(a\), expected at least two"),
    bad(lambda m: m.assign(value=1), "the column value, or else right with n"),
    bad(lambda m: m.iloc[:0], "no rows"),
    bad(lambda m: m.to_numpy(), "got ndarray, expected a DataFrame"),
])  # fmt: skip
def test_what_does_not_fit_is_refused_by_row(change, said):
    rng = np.random.default_rng(7)
    rows = counted(answers(additive(rng, 3), 40, rng).assign(heads=8))
    for function in (headspec.dissociate, headspec.decompose):
        with pytest.raises(ValueError, match=said) as error:
            function(change(rows))
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(("change", "said"), [
    bad(lambda m: m.drop(index=60), r"has 39 answers to task|has 39 of the 40 examples"),
    bad(lambda m: m.assign(example=m["example"].mask(m.index == 60, 77)), "of the 41 examples of task"),
    bad(lambda m: m.assign(right=m["right"].mask(m.index == 60, 2)), "row 60 has right 2, expected 0 to 1"),
    bad(lambda m: pd.concat([m, m.iloc[[3]].set_axis([999])]), "row 999 repeats"),
])  # fmt: skip
def test_answers_that_do_not_fit_are_refused(change, said):
    rng = np.random.default_rng(8)
    with pytest.raises(ValueError, match=said):
        headspec.dissociate(change(answers(additive(rng, 3), 40, rng)))


@pytest.mark.parametrize(("given", "said"), [
    ({"chance": 1.2}, "chance: got 1.2"), ({"chance": {"bb": 0.5}}, "chance: there is no task 'bb'"),
    ({"confidence": 1}, "confidence: got 1"), ({"resamples": 0}, "resamples: got 0"),
])  # fmt: skip
def test_arguments_are_checked(given, said, examples):
    with pytest.raises(ValueError, match=said):
        headspec.dissociate(examples, **given)


def test_an_unpruned_model_at_chance_has_no_case():
    rng = np.random.default_rng(9)
    rows = counted(answers(additive(rng, 3, own=0.5), 100, rng))
    assert headspec.dissociate(rows, **FEW)["verdict"].iloc[-1] == "double, distinct"
    assert headspec.dissociate(rows, chance={"b": 0.94}, **FEW)["verdict"].iloc[-1] == "chance"


def test_a_matrix_needs_no_torch():
    code = "import sys, headspec; headspec.dissociate, headspec.decompose; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_plot_has_every_row(examples):
    found = headspec.dissociate(counted(examples), **FEW)
    axes = headspec.plot_dissociation(found, Figure().subplots())
    drawn = np.sort(np.concatenate([line.get_ydata() for line in axes.lines[:4]]))
    np.testing.assert_allclose(drawn, np.sort(100 * found["dissociation"]))
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["8", "16", "all"]
    models = pd.concat([found.assign(model=name) for name in ("m", "n")])
    with pytest.raises(ValueError, match="got models m, n, expected the rows of one"):
        headspec.plot_dissociation(models)


#: what a matrix is made of, without any task's own heads
NULLS = {"nothing": {}, "lists": {"lists": 0.15}, "tasks": {"tasks": 0.15},
         "both": {"lists": 0.15, "tasks": 0.15}}  # fmt: skip


def verdicts(k: int, effects: dict[str, float], known: bool, rng: np.random.Generator) -> dict[str, float]:
    """What one study of k tasks finds, at 0.05, where examples are `known` or only counts."""
    rows = answers(additive(rng, k, **effects), 60, rng)
    rows = rows if known else counted(rows)
    found, parts = headspec.dissociate(rows, **FEW), headspec.decompose(rows, **FEW).set_index("part")
    mean, tasks = found.iloc[-1], found.iloc[:-1]
    return {
        "double": mean["verdict"].startswith("double"), "single": mean["verdict"] == "single",
        "mean": mean["p_value"] <= 0.05, "interval": not mean["ci_low"] <= 0 <= mean["ci_high"],
        "task": ((tasks["ci_low"] > 0) | (tasks["ci_high"] < 0)).mean(),
        "net": ((tasks["net_low"] > 0) | (tasks["net_high"] < 0)).mean(),
        **(parts["p_value"].dropna() <= 0.05),
    }  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("known", [True, False], ids=["examples", "counts"])
@pytest.mark.parametrize("made_of", NULLS)
def test_verdicts_keep_their_level(made_of, known):
    """Strong lists or fragile tasks alone are no dissociation; D of a single task is not net of lists."""
    rng = np.random.default_rng(11)
    studies = [verdicts(k, NULLS[made_of], known, rng) for k in (2, 3, 5, 9) for _ in range(12)]
    rates = pd.DataFrame(studies).mean()
    assert rates["double"] == 0 and rates["single"] < 0.1, rates
    few = stats.binom.ppf(0.9999, len(studies), 0.07) / len(studies)
    assert (rates[["mean", "interval", "net", "own"]] <= few).all(), rates
    assert "lists" in NULLS[made_of] or rates["source"] <= few
    assert rates["source"] > 0.5 or "lists" not in NULLS[made_of]
    assert "tasks" in NULLS[made_of] or rates["target"] <= few
    assert rates["target"] > 0.4 or "tasks" not in NULLS[made_of]
    assert rates["task"] > 0.3 or "lists" not in NULLS[made_of]


#: matrices without any task's own heads, by what they are made of
WITHOUT_OWN = {
    **{name: lambda rng, k, effects=effects: additive(rng, k, **effects) for name, effects in NULLS.items()},
    "multiplied": multiplied,
    "multiplied, strong lists of fragile tasks": lambda rng, k: multiplied(rng, k, together=True),
}


def is_specific(made: np.ndarray, n: int, runs: int, rng: np.random.Generator) -> bool:
    """The verdict on answers to n examples of `runs` seeds, whose matrices vary if there are several."""
    varied = made + (0.1 * rng.normal(size=(runs, *made.shape)) if runs > 1 else 0)
    seeds = np.clip(np.broadcast_to(varied, (runs, *made.shape)), 0.03, 0.97)
    rows = [answers(each, n, rng).assign(seed=seed) for seed, each in enumerate(seeds)]
    return bool(headspec.dissociate(pd.concat(rows), **FEW).iloc[-1]["specific"])


@pytest.mark.thorough
@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize("made_of", WITHOUT_OWN)
def test_specific_keeps_its_level(made_of, runs):
    rng = np.random.default_rng(12)
    found = [is_specific(WITHOUT_OWN[made_of](rng, k), 60, runs, rng) for k in (4, 5, 9) for _ in range(12)]
    assert np.sum(found) <= stats.binom.ppf(0.9999, len(found), 0.12 if "strong" in made_of else 0.05)


@pytest.mark.thorough
@pytest.mark.parametrize("runs", [1, 3])
def test_specific_finds_own_heads(runs):
    rng = np.random.default_rng(13)
    effects = {"lists": 0.15, "tasks": 0.15, "own": 0.3}
    found = [is_specific(additive(rng, k, **effects), 60, runs, rng) for k in (4, 5, 9) for _ in range(6)]
    assert np.mean(found) > 0.8
