"""Groups of tasks for a number of encoders, from tables."""

import itertools
import re

import numpy as np
import pytest
import yaml

from headspec import tables
from headspec.config.study import Mixtures
from headspec.errors import HeadspecError, MissingError
from headspec.pipeline.commands.group import group_tasks
from headspec.statistics.grouping import prediction
from headspec.statistics.grouping.gains import measured_gains
from support.figures import frame
from support.schemas import SCHEMAS
from support.tiers import cases

TASKS = ("news", "mail", "tone", "mood")
#: pairs that gain; others lose
FRIENDS = {frozenset(("news", "mail")), frozenset(("tone", "mood"))}


def write(results, name, rows):
    path = results / "tables" / f"{name}.parquet"
    tables.write(path, SCHEMAS[name], frame(name, list(rows)), {"study": "mine"})


def by_pair(yes, no, pairs):
    """Two tasks, and one value if they gain from each other, another if not."""
    return [(a, b, yes if {a, b} in FRIENDS else no) for a, b in pairs]


def gains(*more, model="m", unlearnt=(), untrained=()):
    """Rows of tasks alone and in pairs, in the order of the config."""
    tasks, run = (*TASKS, *more), {"model": model, "metric": "accuracy", "n_seeds": 3, "between_seeds": 0.001}
    for task in tasks:
        yield run | {"mixture": task, "method": "single", "task": task, "value": 0.8}
    for a, b, gain in by_pair(0.03, -0.02, itertools.combinations(tasks, 2)):
        known = {"difference": gain, "ci_low": gain - 0.01, "ci_high": gain + 0.01}
        for task in (a, b):
            row = run | {"mixture": f"{a}+{b}", "method": "tuned", "task": task, "value": 0.8 + gain}
            row |= {} if {a, b} == {*untrained} else known
            yield row | {"unpruned_at_chance": task in unlearnt}


def groups(text):
    """The groups that the snippet for the config has; it is a valid section of all tasks."""
    mixtures = yaml.safe_load(text[text.index("mixtures:") :])["mixtures"]
    Mixtures.model_validate(mixtures)
    found = [*mixtures.get("groups", {}).values(), *([task] for task in mixtures.get("single", []))]
    assert sorted(task for group in found for task in group) == sorted(TASKS)
    return {frozenset(group) for group in found}


def test_tasks_that_gain_from_each_other_share_an_encoder(tmp_path):
    write(tmp_path, "gains", gains())
    text = group_tasks(tmp_path, 2)
    assert groups(text) == FRIENDS and (tmp_path / "groups.png").exists()
    assert "these groups              +3.0\n" in text and "all together              -0.3 [" in text
    assert (
        "for each of 2 saved       +1.50\n" in text
        and "Groups chosen by gains, measured or predicted, have no interval" in text
    )
    assert groups(group_tasks(tmp_path, 4)) == FRIENDS  # fewer encoders than allowed are better


def test_groups_that_were_trained_are_shown(tmp_path):
    write(tmp_path, "gains", gains())
    text = group_tasks(tmp_path, 1)
    assert groups(text) == {frozenset(TASKS)} and "groups, trained" not in text
    run = {"model": "m", "mixture": "all", "method": "tuned", "metric": "accuracy", "difference": 0.01}
    run |= {"ci_low": 0.0, "ci_high": 0.02}
    write(tmp_path, "gains", [*gains(), *(run | {"task": task} for task in (*TASKS, "mean"))])
    assert "these groups, trained     +1.0 [0.0, 2.0]" in group_tasks(tmp_path, 1)


@pytest.mark.parametrize("figure", [None, "mine.svg"])
def test_each_of_several_models_has_a_figure(tmp_path, figure):
    write(tmp_path, "gains", [*gains(model="a"), *gains(model="b", unlearnt=["mood"])])
    text = group_tasks(tmp_path, 2, figure=figure and tmp_path / figure)
    stem, _, suffix = (figure or "groups.png").partition(".")
    paths = [tmp_path / f"{stem}.{model}.{suffix}" for model in "ab"]
    assert sorted(path for path in tmp_path.iterdir() if path.is_file()) == paths
    assert re.findall("figure +(.+)", text) == [*map(str, paths)]
    assert paths[0].read_bytes() != paths[1].read_bytes()


def trained_gains(rng, k=6):
    """Rows of k tasks alone, in pairs and in larger groups, none of which gains anything."""
    names, run = [f"t{task}" for task in range(k)], {"model": "m", "metric": "accuracy", "n_seeds": 3}
    alone = dict(zip(names, rng.normal(0, 0.01, k), strict=True))
    for task in names:
        yield run | {"mixture": task, "method": "single", "task": task, "value": 0.8 + alone[task]}
    for size in range(2, k + 1):
        for group in itertools.combinations(names, size):
            found = {task: rng.normal(0, 0.01) - alone[task] for task in group}
            found["mean"] = np.mean([*found.values()])
            for task, gain in found.items():
                row = run | {"mixture": "+".join(group), "method": "tuned", "task": task, "value": 0.8}
                yield row | {"difference": gain, "ci_low": gain - 0.02, "ci_high": gain + 0.02}


@pytest.mark.parametrize("by", cases(["measured", "baseline+all", "size"], "baseline+all".__eq__))
def test_groups_that_gains_chose_have_no_interval_nor_has_their_training(tmp_path, monkeypatch, by):
    """They are judged on the runs that chose them; there is one way to take one encoder."""
    monkeypatch.setattr(prediction, "RELABELLINGS", 1)
    rng = np.random.default_rng(0)
    rows = list(trained_gains(rng))
    write(tmp_path, "gains", rows)
    names = [f"t{task}" for task in range(6)]
    gains = measured_gains(
        frame("gains", rows).assign(between_seeds=0.01), names, dict.fromkeys(names, "accuracy"), "m"
    )
    predicted, _ = prediction.predict(gains, {"size": rng.normal(size=(6, 6))}, "m", 0)
    write(tmp_path, "gain_predictions", predicted.to_dict("records"))
    lines = group_tasks(tmp_path, 3, by).splitlines()
    ours = [line for line in lines if re.match("these groups|these minus|for each|best by|  [123]  ", line)]
    assert len(ours) >= 5 and any("trained" in line for line in ours) and "[" not in "".join(ours)
    others = [line for line in lines if re.match(r"all together|\d random groups", line)]
    assert len(others) == 2 and all("[" in line for line in others)
    together = [line for line in group_tasks(tmp_path, 1, by).splitlines() if "these groups" in line]
    assert len(together) == 2 and all("[" in line for line in together)


def test_a_task_that_nothing_learns_is_left_out(tmp_path):
    write(tmp_path, "gains", gains("noise", unlearnt=["noise"]))
    text = group_tasks(tmp_path, 2)
    assert "left out, at chance alone and in every pair: noise" in text and groups(text) == FRIENDS


def test_pairs_that_were_not_trained_are_predicted(tmp_path):
    write(tmp_path, "gains", gains(untrained=("tone", "mood")))
    key = {"model": "m", "predictor": "baseline+all", "held_out": 1}
    predicted = by_pair(0.01, -0.01, itertools.permutations(TASKS, 2))
    rows = (key | {"source": a, "target": b, "predicted": gain} for a, b, gain in predicted)
    write(tmp_path, "gain_predictions", rows)
    text = group_tasks(tmp_path, 2)
    assert groups(text) == FRIENDS and "by gains predicted by baseline+all" in text and "not known" in text


def test_without_gains_similar_tasks_are_together_and_nothing_is_promised(tmp_path):
    with pytest.raises(MissingError, match="snakemake grouping"):
        group_tasks(tmp_path, 2)
    key = {"model": "m", "measure": "text"}
    rows = (
        key | {"task_a": a, "task_b": b, "similarity": value}
        for a, b, value in by_pair(0.9, 0.1, itertools.combinations(TASKS, 2))
    )
    write(tmp_path, "similarity", rows)
    text = group_tasks(tmp_path, 2)
    assert groups(text) == FRIENDS and "no evidence that these groups are good" in text


@pytest.mark.parametrize(
    ("encoders", "by", "message"),
    [(5, None, "--encoders: got 5, expected 1 to 4"), (2, "mesured", "--by: .*Did you mean 'measured'?")],
)
def test_wrong_arguments_are_named(tmp_path, encoders, by, message):
    write(tmp_path, "gains", gains())
    with pytest.raises(HeadspecError, match=message):
        group_tasks(tmp_path, encoders, by)
