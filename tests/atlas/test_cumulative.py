"""Pruning by any ranking: identities at no head and all heads, cross-fitting, and agreement with IAP."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch

from headspec.atlas.cumulative import (
    CUMULATIVE,
    Ranking,
    bottom_first,
    by_gates,
    by_measures,
    cumulative,
    half_maps,
    levels,
    random_rankings,
    rescored,
    same_layers,
)
from headspec.atlas.sample import measure_folds, sampled
from headspec.config.values import BOTTOM, TOP
from headspec.errors import DataError
from headspec.heads.importance import gate_gradients
from headspec.heads.masks import Mask
from headspec.heads.pruning import predictions
from headspec.heads.ranking import prune_count, top_heads
from headspec.models.multitask import MultiTask
from support.reference.contexts import without_columns
from support.tiny import CPU, HEADS, LAYERS, by_family, encoder, examples, pooling

CLASSES = {"a": ["x", "y"], "r": None}
FRACTIONS = [0.0, 0.25, 0.3, 0.5, 1.0]
SHAPE = (LAYERS, HEADS)
DATA = {"a": examples(30, 2, 1), "r": examples(17, 5, 3)}
ROWS = {task: sampled(task, len(of_task), 24) for task, of_task in DATA.items()}
MEASURED = pd.concat([
    measure_folds(task, measure, np.random.default_rng(seed).random((len(ROWS[task]), *SHAPE)))
    for seed, (task, measure) in enumerate(itertools.product(CLASSES, ("importance", "confidence")))
])  # fmt: skip


@pytest.fixture(scope="module")
def model() -> MultiTask:
    torch.manual_seed(2)
    return MultiTask(encoder("bert"), "mean", CLASSES).eval()


@pytest.fixture(scope="module")
def rankings(model) -> list[Ranking]:
    by_measure = by_measures(MEASURED, ["importance", "confidence"], list(CLASSES))
    again = [rescored(model, DATA, ROWS, levels(0.3, FRACTIONS), CPU, order) for order in (TOP, BOTTOM)]
    random = random_rankings(np.ones(SHAPE, bool), 3, seed=1)
    return [*by_measure, *bottom_first(by_measure), *random, *again[0], *again[1]]


@pytest.fixture(scope="module")
def table(model, rankings) -> pd.DataFrame:
    return cumulative(model, DATA, ROWS, rankings, 0.3, FRACTIONS, CPU)


def test_half_maps_are_means_over_examples():
    values = np.random.default_rng(0).random((47, *SHAPE))  # folds of two and of three
    maps = half_maps(measure_folds("a", "m", values), "a", "m")
    np.testing.assert_allclose(maps, [values[0::2].mean(axis=0), values[1::2].mean(axis=0)])


def test_measures_that_are_not_there_are_refused_and_one_task_has_no_ranking_for_all():
    with pytest.raises(DataError, match="no measure 'confidense'.*Did you mean 'confidence'"):
        by_measures(MEASURED, ["confidense"], ["a"])
    for tasks, expected in ((["a"], 1), ([*CLASSES], 3)):
        assert len(by_measures(MEASURED, ["importance"], tasks)) == expected


def test_rows(table, rankings):
    """A task's own rankings and shared ones at every fraction, top heads of others at the main one and 0."""
    shared = [r for r in rankings if r.pruned_for is None]
    assert [r.name for r in shared] == [*["importance_all"] * 2, "random", "random", "random"]
    for task in CLASSES:
        own = [r for r in rankings if r.pruned_for == task]
        assert [r.name for r in own] == [*["importance", "confidence"] * 2, *["rescored"] * 2]
        rows_expected = (len(shared) + len(own)) * len(FRACTIONS) + 3 * 2
        assert (table["task"] == task).sum() == rows_expected * len(ROWS[task])
    assert not table.duplicated(list(CUMULATIVE.columns)[:7]).any()
    assert set(table.loc[table["ranking"] == "random", "order"].isna()) == {True}


@pytest.mark.parametrize("name", ["importance", "confidence"])
def test_bottom_heads_are_those_that_top_first_leaves(rankings, name):
    """The last n heads of a ranking, from either end."""
    top, bottom = ([r for r in rankings if r.name == name and r.order == order] for order in (TOP, BOTTOM))
    for one, other in zip(top, bottom, strict=True):
        assert one.pruned_for == other.pruned_for
        for half, n in itertools.product((0, 1), (1, 3, 8)):
            closed = top_heads(other.maps[half], n)
            np.testing.assert_array_equal(closed, ~top_heads(one.maps[half], LAYERS * HEADS - n))
            assert one.maps[half][closed].max() < one.maps[half][~closed].min()


def test_random_orders_of_the_same_layers_close_as_many_heads_of_each(model):
    """Of both halves, at every step, also where a head does not exist."""
    by_measure = by_measures(MEASURED, ["importance", "confidence"], list(CLASSES))
    for one in by_measure:
        one.maps[:, 0, 1] = np.nan
    drawn = same_layers([*by_measure, *bottom_first(by_measure)], ["importance"], 3, seed=0)
    of = [one for one in by_measure if one.name == "importance"]
    assert [(one.pruned_for, one.draw, one.order) for one in drawn] == [
        (one.pruned_for, draw, "same_layers") for one in of for draw in range(3)
    ]
    differ = 0
    for number, one in enumerate(drawn):
        for half, n in itertools.product((0, 1), range(LAYERS * HEADS)):
            closed, own = top_heads(one.maps[half], n), top_heads(of[number // 3].maps[half], n)
            np.testing.assert_array_equal(closed.sum(1), own.sum(1))
            assert not closed[0, 1]
            differ += (closed != own).any()
    assert differ > len(drawn)
    for one, other in itertools.combinations(drawn[:3], 2):
        assert not np.array_equal(one.maps, other.maps, equal_nan=True)
    table = cumulative(model, DATA, ROWS, [*of, *drawn], 0.3, FRACTIONS, CPU)
    rows = table[table["order"] == "same_layers"]
    assert (rows["pruned_for"] == rows["task"]).all() and {*rows["fraction"]} == {*FRACTIONS}


@pytest.mark.parametrize("fraction", [0.0, 0.25, 0.3, 1.0])
def test_examples_are_evaluated_under_masks_of_the_other_half(model, table, fraction):
    """The same predictions as by IAP with the masks of the two halves."""
    maps = half_maps(MEASURED, "r", "confidence")
    n = prune_count(fraction, LAYERS * HEADS)
    masks = [Mask("r", "top", fraction, None, top_heads(one, n)) for one in maps]
    assert (masks[0].closed != masks[1].closed).any() == (0 < fraction < 1)
    by_half = predictions(model, DATA, masks, CPU)["r"]
    chosen = table[(table["ranking"] == "confidence") & (table["pruned_for"] == "r") & (table["task"] == "r")]
    chosen = chosen[(chosen["fraction"] == fraction) & (chosen["order"] == TOP)].set_index("example")
    for half in (0, 1):
        of_half = ROWS["r"][half::2]
        found = chosen.loc[DATA["r"].example[of_half]]
        np.testing.assert_allclose(found["prediction"], by_half[1 - half][of_half], rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(found["label"], DATA["r"].label[of_half])


def test_importance_of_all_tasks_is_a_sum_of_shares():
    """A task with losses a thousand times larger does not dominate the joint ranking."""
    a, b = np.zeros((2, 1, 3)), np.zeros((2, 1, 3))
    a[:] = [[3000, 1000, 2000]]
    b[:] = [[1, 6, 2]]
    frame = pd.concat([measure_folds("a", "importance", a), measure_folds("b", "importance", b)])
    (everyone,) = (r for r in by_measures(frame, ["importance"], ["a", "b"]) if r.pruned_for is None)
    expected = np.array([[3 / 2 + 1 / 3, 1 / 2 + 6 / 3, 2 / 2 + 2 / 3]])
    np.testing.assert_allclose(everyone.maps, [expected, expected])


@pytest.mark.parametrize("tasks", [["a", "b"], ["a"]])
def test_gates_rank_by_what_they_have_learnt_in_the_end(tasks):
    """Each task by its own set; the run of one task has only the shared one."""
    rng, layer, head = np.random.default_rng(0), *(index.ravel() for index in np.indices(SHAPE))
    scores = {(task, step): rng.random(SHAPE) for task in tasks for step in (2, 9)}
    frames = [
        pd.DataFrame({"task": task if len(tasks) > 1 else None, "step": step, "layer": layer, "head": head})
        .assign(score=of_step.ravel())
        .sample(frac=1, random_state=0)
        for (task, step), of_step in scores.items()
    ]
    rankings = by_gates("subset", pd.concat(frames), tasks)
    assert [(r.name, r.pruned_for, r.order, r.draw) for r in rankings] == [
        ("subset", task, TOP, None) for task in tasks
    ]
    for ranking in rankings:
        for half in ranking.maps:  # no validation example has ranked
            np.testing.assert_array_equal(half, scores[ranking.pruned_for, 9])


def test_random_orders_are_seeded():
    one, again, other = (random_rankings(np.ones(SHAPE, bool), 4, seed) for seed in (1, 1, 2))
    assert all((a.maps == b.maps).all() for a, b in zip(one, again, strict=True))
    assert any((a.maps != b.maps).any() for a, b in zip(one, other, strict=True))
    assert len({r.maps.tobytes() for r in one}) == 4


@pytest.mark.parametrize("order", [TOP, BOTTOM])
@pytest.mark.parametrize("kind", by_family())
def test_importance_again_in_every_architecture(kind, order):
    """The first step is importance; each further one that of the model without the heads before."""
    sign = 1 if order == TOP else -1
    model = MultiTask(encoder(kind), pooling(kind), {"a": ["x", "y"]}).eval()
    of_task, sample = examples(8), sampled("a", 8, 8)
    (ranking,) = rescored(model, {"a": of_task}, {"a": sample}, levels(0.25, [0.5]), CPU, order)
    for half in (0, 1):
        gradients = gate_gradients(model, "a", of_task, sample[half::2], CPU)
        first = top_heads(sign * np.abs(gradients).mean(axis=0), 3)
        np.testing.assert_array_equal(top_heads(ranking.maps[half], 3), first)
        model.gates.values = None
        gradients = gate_gradients(model, "a", of_task, sample[half::2], CPU, closed=first)
        scores = np.where(first, np.inf, sign * np.abs(gradients).mean(axis=0))
        np.testing.assert_array_equal(top_heads(ranking.maps[half], 6), top_heads(scores, 6))


def test_a_ranking_of_the_head_that_alone_decides():
    """Pruned first, the first step already gives what pruning everything gives; pruned last, no step does."""
    lonely = MultiTask(encoder("bert", seed=3), "mean", {"r": None}).eval()
    decides = np.zeros((2, *SHAPE))
    decides[:, 2, 1] = 1
    without_columns(lonely.gates, decides[0] == 0)  # of all other heads
    right = [Ranking("decides", "r", TOP, None, decides)]
    chosen = [*right, *bottom_first(right)]
    table = cumulative(lonely, {"r": DATA["r"]}, {"r": ROWS["r"]}, chosen, 0.25, [0.1, 0.9], CPU)
    by_fraction = table.pivot(index=["order", "example"], columns="fraction", values="prediction")
    top, bottom = by_fraction.loc[TOP], by_fraction.loc[BOTTOM]
    assert (top[1.0] - top[0.0]).abs().min() > 1e-3
    for fraction in (0.1, 0.25, 0.9):
        pd.testing.assert_series_equal(top[fraction], top[1.0], check_names=False)
        pd.testing.assert_series_equal(bottom[fraction], bottom[0.0], check_names=False)
