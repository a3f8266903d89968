"""A task and the task of pairs of its texts: level of the tests and coverage of intervals."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from headspec.data.overlap import TEXTS, grouped
from headspec.data.pairs import pair
from headspec.statistics.atlas.rankings import pruning_curves
from headspec.statistics.dissociation.analysis import dissociation_tables
from headspec.statistics.dissociation.pruned import PrunedPredictions
from headspec.statistics.dissociation.resampled import resample_run
from support.data.evaluations import evaluated

TASKS = ("topic", "topic-pair")


def texts(rng: np.random.Generator, n: int) -> tuple[dict[str, pd.DataFrame], dict]:
    """Validation tables of a task and of the pairs of its texts, and their groups."""
    names = [f"text {i}" for i in range(n)]
    parent = pd.DataFrame({"text_a": names, "text_b": None, "label": rng.choice(list("abcd"), n)})
    tables = {"topic": parent, "topic-pair": pair(parent, rng)}
    return tables, grouped(dict.fromkeys(TASKS, "topic"), tables.values())


def null(rng: np.random.Generator, mixture: str, tables: dict[str, pd.DataFrame]) -> PrunedPredictions:
    """It makes no difference whose heads are pruned; a pair is right if both of its texts are understood."""
    first, second = (
        tables["topic-pair"][text].str.split().str[1].astype(int) for text in ("text_a", "text_b")
    )
    predictions = {}
    for pruned_for in ("none", *TASKS):
        understood = rng.random(len(tables["topic"])) < (0.95 if pruned_for == "none" else 0.8)
        fraction = 0.3 * (pruned_for != "none")
        predictions[pruned_for, "topic", fraction] = understood
        predictions[pruned_for, "topic-pair", fraction] = understood[first] & understood[second]
    return evaluated(["pruned_for", "task", "fraction"], predictions, mixture=mixture)


def as_rankings(one: PrunedPredictions) -> PrunedPredictions:
    """The same predictions, as if two rankings had chosen the heads to prune."""
    frame = one.read()
    parts = [
        frame[frame["pruned_for"].isin(["none", pruned_for])].assign(ranking=ranking)
        for ranking, pruned_for in {"importance": "topic", "confidence": "topic-pair"}.items()
    ]
    table = pd.concat(parts).assign(order="top", draw=None)
    return replace(one, stored=table.assign(pruned_for=table["task"]).astype({"draw": "Int32"}))


@pytest.mark.thorough
def test_pairs_of_texts_keep_level_and_coverage():
    """Drawn one by one, 14 % of the intervals of pairs would miss 0, and of those of the mean none."""
    rng = np.random.default_rng(0)
    tables, groups = texts(rng, 300)
    runs = [replace(null(rng, f"m{i}", tables), grouped=groups) for i in range(150)]
    dissociation = dissociation_tables(runs, 199, 0.95, 0.1, 0.3, seed=0)["combined"]
    areas = pruning_curves(map(as_rankings, runs), 199, 0.95, seed=0)["pruning_areas"]
    least, most = stats.binom.ppf([0.001, 0.999], 150, [0.03, 0.06])
    for table in (dissociation, areas[areas["against"] == "importance"]):
        for task, rows in table.groupby("task"):
            missed = ((rows["ci_low"] > 0) | (rows["ci_high"] < 0)).sum()
            assert len(rows) == 150 and least <= missed <= most, (task, missed)
            assert (rows["p_value"] <= 0.05).sum() <= most, task


def test_partners_and_their_texts_are_in_one_group():
    tables, groups = texts(np.random.default_rng(1), 700)
    group_of_text = dict(zip(tables["topic"]["text_a"], groups["topic"].group, strict=True))
    pairs = tables["topic-pair"].assign(group=groups["topic-pair"].group)
    assert (pairs["text_a"].map(group_of_text) == pairs["group"]).all()
    assert (pairs["text_b"].map(group_of_text) == pairs["group"]).mean() > 0.8
    assert np.bincount(groups["topic"].group).max() == TEXTS


def test_tasks_of_one_source_share_only_what_they_share():
    """Tasks on the same sentences are drawn by sentence; those on other rows of the same file are apart."""
    names = [f"text {i}" for i in range(600)]
    rows = {"tags": names[:400], "trees": names[:400][::-1], "reviews": names[400:], "one": names[:1] + ["x"]}
    tables = [pd.DataFrame({"text_a": texts, "text_b": None}) for texts in rows.values()]
    groups = grouped(dict.fromkeys(rows, "tags"), tables)
    assert set(groups) == {"tags", "trees", "one"}
    assert len(set(groups["tags"].group)) == 400 and set(groups["one"].group) - set(groups["tags"].group)
    np.testing.assert_array_equal(groups["tags"].group, groups["trees"].group[::-1])
    assert {one.source for one in groups.values()} == {"tags"}
    assert grouped({"a": "a", "b": "a"}, [tables[0], tables[2]]) == {}


def test_a_task_without_its_pairs_is_drawn_by_example():
    rng = np.random.default_rng(2)
    tables, groups = texts(rng, 300)
    one, tasks = null(rng, "m", tables), ("topic", "other")
    frame = one.read().replace({"topic-pair": "other"})
    alone = PrunedPredictions(replace(one.run, tasks=tasks), dict.fromkeys(tasks, "accuracy"), frame)
    by_example, by_group = (
        [resample_run(replace(e, grouped=given), [0.3], 100, 0.95, 0).bootstrap for given in ({}, groups)]
        for e in (alone, one)
    )
    np.testing.assert_array_equal(*by_example)
    assert (by_group[0] != by_group[1]).any()
