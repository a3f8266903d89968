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
from support.figures import frame
from support.schemas import SCHEMAS

TASKS = ("news", "mail", "tone", "mood")
#: pairs that gain; others lose
FRIENDS = {frozenset(("news", "mail")), frozenset(("tone", "mood"))}


def write(results, name, rows):
    path = results / "tables" / f"{name}.parquet"
    tables.write(path, SCHEMAS[name], frame(name, list(rows)), {"study": "mine"})


def by_pair(yes, no, pairs):
    """Two tasks, and one value if they gain from each other, another if not."""
    return [(a, b, yes if {a, b} in FRIENDS else no) for a, b in pairs]


def gains(*more, unlearnt=(), untrained=()):
    """Rows of tasks alone and in pairs, in the order of the config."""
    tasks, run = (*TASKS, *more), {"model": "m", "metric": "accuracy", "n_seeds": 3, "between_seeds": 0.001}
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
        and "Groups that these gains chose have no interval" in text
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


def intervals_of_nothing(results, by, rng, k=6, runs=3):
    """Intervals of chosen groups that `headspec group` prints of a study in which no task gains from any."""
    names, run = [f"t{task}" for task in range(k)], {"model": "m", "metric": "accuracy", "n_seeds": runs}
    alone = dict(zip(names, rng.normal(0, 0.01, k), strict=True))
    rows = [run | {"mixture": t, "method": "single", "task": t, "value": 0.8 + alone[t]} for t in names]
    for size in (2, 3, 4, k):
        for group in itertools.combinations(names, size):
            found = {task: rng.normal(0, 0.01) - alone[task] for task in group}
            found["mean"] = np.mean([*found.values()])
            for task, gain in found.items():
                reach = 1.96 * 0.01 * (2 / (size if task == "mean" else 1)) ** 0.5
                row = run | {"mixture": "+".join(group), "method": "tuned", "task": task, "value": 0.8}
                rows.append(row | {"difference": gain, "ci_low": gain - reach, "ci_high": gain + reach})
    write(results, "gains", rows)
    wide = rng.normal(size=(k, k))  # predictions that know nothing
    key = {"model": "m", "predictor": "size", "held_out": 1}
    pairs = itertools.permutations(range(k), 2)
    write(results, "gain_predictions", [
        key | {"source": names[a], "target": names[b], "predicted": wide[a, b]} for a, b in pairs
    ])  # fmt: skip
    lines = [line for line in group_tasks(results, 3, by).splitlines() if re.match("these groups", line)]
    assert len(lines) > 1
    return [float(low) > 0 for line in lines for low in re.findall(r"\[(\S+),", line)]


@pytest.mark.thorough
@pytest.mark.parametrize("by", ["measured", "size"])
def test_where_nothing_gains_few_intervals_of_groups_are_above_0(tmp_path, by):
    """None is printed of groups that these gains chose; chosen without them, they keep their level."""
    rng = np.random.default_rng(0)
    found = [above for _ in range(40) for above in intervals_of_nothing(tmp_path, by, rng)]
    assert found == [] if by == "measured" else len(found) >= 80 and np.mean(found) < 0.08


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
    assert groups(text) == FRIENDS and "nothing says that these groups are good" in text


@pytest.mark.parametrize(
    ("encoders", "by", "message"),
    [(5, None, "--encoders: got 5, expected 1 to 4"), (2, "mesured", "--by: .*Did you mean 'measured'?")],
)
def test_wrong_arguments_are_named(tmp_path, encoders, by, message):
    write(tmp_path, "gains", gains())
    with pytest.raises(HeadspecError, match=message):
        group_tasks(tmp_path, encoders, by)
