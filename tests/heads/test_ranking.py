"""Importance maps, and their most and least important heads."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from headspec.errors import DataError
from headspec.heads.ranking import (
    blocks,
    bottom_heads,
    exclusive_heads,
    fold_means,
    importance_map,
    joint_importance,
    prune_count,
    ranked_heads,
    top_heads,
)
from headspec.plots.drawing.heat_maps import heat_map


@given(seed=st.integers(0, 999), n=st.integers(0, 10), absent=st.booleans())
def test_exclusive_heads_are_as_many_for_both_tasks(seed, n, absent):
    one, other = np.random.default_rng(seed).integers(0, 6, size=(2, 3, 4)).astype(float)
    one[0, :absent] = other[0, :absent] = np.nan
    only, reverse = exclusive_heads(one, other, n), exclusive_heads(other, one, n)
    assert only.sum() == reverse.sum() == n - (top_heads(one, n) & top_heads(other, n)).sum()
    assert not (only & top_heads(other, n)).any() and not (only & ~top_heads(one, n)).any()
    assert not exclusive_heads(one, one, n).any()


def test_exclusive_heads_are_of_scores_of_one_model():
    with pytest.raises(ValueError, match=r"^others: got \(2, 6\), expected \(3, 4\)"):
        exclusive_heads(np.ones((3, 4)), np.ones((2, 6)), 2)


@pytest.mark.parametrize(
    ("fraction", "heads", "expected"),
    # the first three are the paper's models at 30 %
    [(0.3, 72, 21), (0.3, 144, 43), (0.3, 384, 115), (0.29, 100, 29), (1.0, 72, 72), (0.01, 72, 0)],
)
def test_prune_count(fraction, heads, expected):
    assert prune_count(fraction, heads) == expected


@given(st.integers(1, 1000), st.data())
def test_a_fraction_of_a_whole_number_of_heads_prunes_that_number(heads, data):
    n = data.draw(st.integers(0, heads))
    assert prune_count(n / heads, heads) == n


def test_ties_go_to_the_first_head():
    heads = np.array([[1.0, 2, 2], [2, 0, 1]])
    assert top_heads(heads, 2).tolist() == [[False, True, True], [False, False, False]]
    assert bottom_heads(heads, 2).tolist() == [[False, False, False], [False, True, True]]
    many = np.random.default_rng(0).integers(3, size=(12, 12)).astype(float)
    first = sorted(range(144), key=lambda head: -many.flat[head])[:50]
    assert sorted(np.flatnonzero(top_heads(many, 50))) == sorted(first)


@given(st.lists(st.integers(0, 4), min_size=2, max_size=5).filter(any), st.data())
def test_top_and_bottom_split_the_heads_that_exist(heads, data):
    exists = np.arange(max(heads)) < np.array(heads)[:, None]
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    scores = np.where(exists, rng.integers(data.draw(st.sampled_from([3, 99])), size=exists.shape), np.nan)
    n = data.draw(st.integers(0, sum(heads)))
    top, bottom = top_heads(scores, n), bottom_heads(scores, sum(heads) - n)
    assert top.sum() == n and np.array_equal(top ^ bottom, exists)
    if 0 < n < sum(heads):
        assert scores[top].min() >= scores[bottom].max()
    ranked = ranked_heads(scores)
    assert [*ranked] == ["layer", "head", "score"] and [*ranked.index] == [*range(sum(heads))]
    assert {*map(tuple, np.argwhere(top).tolist())} == {
        *ranked[["layer", "head"]][:n].itertuples(index=False)
    }
    np.testing.assert_array_equal(ranked["score"], scores[ranked["layer"], ranked["head"]])


@pytest.mark.parametrize(
    "made",
    [np.float32, np.float64, np.float16, torch.tensor, lambda n: torch.tensor(n, dtype=torch.float64)],
    ids=["single", "double", "half", "tensor", "double tensor"],
)
def test_fractions_of_any_precision_are_the_decimals_that_were_meant(made):
    scores = np.arange(100.0).reshape(10, 10)
    assert [int(top_heads(scores, made(n)).sum()) for n in (0.1, 0.29, 0.58, 1.0)] == [10, 29, 58, 100]
    assert top_heads(scores, np.int64(7)).sum() == top_heads(scores, torch.tensor(7)).sum() == 7


@pytest.mark.parametrize(
    "made",
    [
        np.ndarray.tolist,
        lambda scores: torch.tensor(scores, dtype=torch.bfloat16),
        lambda scores: torch.tensor(scores, requires_grad=True),
        lambda scores: scores.astype(np.uint8),
    ],
    ids=["list", "bfloat16", "with gradients", "integers"],
)
def test_scores_of_any_form_are_ranked(made):
    scores = np.array([[1.0, 5, 2], [4, 0, 3]])
    assert np.array_equal(top_heads(made(scores), 3), scores >= 3)
    assert heat_map(made(scores), axes=Figure().subplots()).images[0].get_clim() == (0, 5)


@pytest.mark.parametrize(
    ("heads", "n", "message"),
    [
        (np.ones((5, 2, 3)), 2, r"scores: got \(5, 2, 3\), expected \(layers, heads\); of examples"),
        (np.ones(()), 1, r"scores: got \(\), expected \(layers, heads\)$"),
        ([[1.0], [1.0, 2.0]], 1, "scores: got rows of different lengths"),
        ([["a"]], 1, "scores: got list, expected numbers$"),
        (np.ones((2, 3)), 7, "top heads: got 7, expected 0 to 6, or a fraction from 0.0 to 1.0$"),
        (np.ones((2, 3)), 1.5, "top heads: got 1.5, expected 0 to 6, or a fraction"),
        (np.ones((2, 3)), -1, "top heads: got -1, expected 0 to 6"),
        (np.ones((2, 3)), np.nan, "top heads: got nan, expected 0 to 6"),
        (np.ones((2, 3)), True, "top heads: got True, expected 0 to 6"),
        (np.ones((2, 3)), [1, 2], r"top heads: got \[1, 2\], expected 0 to 6"),
        (np.ones((2, 3)), "0.1", "top heads: got str, expected numbers$"),
    ],
)  # fmt: skip
def test_what_cannot_be_ranked_is_refused(heads, n, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        top_heads(heads, n)


def test_scores_of_no_head_have_no_heat_map():
    with pytest.raises(ValueError, match="^scores: all 6 are nan, expected a score of at least one head$"):
        heat_map(np.full((2, 3), np.nan), axes=Figure().subplots())


def test_tasks_count_equally_in_joint_importance():
    a, b = np.array([[[1.0, -3], [2, np.nan]], [[10, 2], [0, np.nan]]])
    np.testing.assert_allclose(joint_importance([a, 100 * b]), a / 2 + b / 4)
    np.testing.assert_allclose(joint_importance([np.stack([a, b])])[1], b / 4)  # of each of several maps


def test_a_table_of_ragged_layers_is_the_map_that_it_was_made_of():
    """Layers without a row have no head; what folds average is what the map has."""
    exists = np.arange(3) < np.array([0, 3, 0, 2])[:, None]
    values = np.where(exists, np.arange(7 * 12.0).reshape(7, 4, 3), np.nan)
    frame = fold_means(np.arange(7) % 3, importance=values).assign(task="a")
    assert len(frame) == 3 * exists.sum() and frame["importance"].notna().all()
    assert frame.groupby("fold")["n"].first().tolist() == [3, 2, 2]
    shuffled = pd.concat([frame, frame.assign(task="b", importance=99)]).sample(frac=1, random_state=0)
    np.testing.assert_allclose(importance_map(shuffled, "a"), values.mean(axis=0))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.integers(1, 12))
def test_blocks_have_as_many_distinct_inputs_and_keep_repeats_together(inputs, folds):
    fold = blocks([(value, value) for value in inputs], folds)
    distinct = [{value for value, own in zip(inputs, fold, strict=True) if own == k} for k in set(fold)]
    assert len(distinct) == min(folds, len({*inputs})) and set(fold) == {*range(len(distinct))}
    assert sum(map(len, distinct)) == len(set.union(*distinct))
    sizes = [len(own) for own in distinct]
    assert max(sizes) - min(sizes) <= 1
    seen = [fold[inputs.index(value)] for value in dict.fromkeys(inputs)]
    assert seen == sorted(seen)


def test_importance_map_suggests_the_nearest_task():
    with pytest.raises(DataError, match="no task 'sentimen'.*has sentiment.*Did you mean 'sentiment'"):
        importance_map(pd.DataFrame({"task": ["sentiment"]}), "sentimen")
