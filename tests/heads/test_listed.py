"""Heads that a table lists."""

import re

import numpy as np
import pytest

from headspec.errors import DataError
from headspec.heads import head_settings, masks
from headspec.heads.masks import random_by_layer
from headspec.heads.ranking import joint_importance, top_heads
from headspec.seeds import derive
from support.running.studies import study

EVERY = np.ones((3, 4), dtype=bool)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("heads.csv", "layer,head\n0,3\n2,1\n"),
        ("heads.csv", "head,score,layer\n3,.5,0\n1,.25,2\n"),
        ("heads.tsv", "layer\thead\n0\t3\n2\t1\n"),
        ("heads.jsonl", '{"layer": 0, "head": 3}\n{"layer": 2, "head": 1}\n'),
    ],
)
def test_lists_are_tables_with_layers_and_heads(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    heads = head_settings.read_head_list(str(tmp_path / name), "key")
    assert heads == [[0, 3], [2, 1]]
    assert np.argwhere(masks.listed_heads_mask(heads, EVERY, "key")).tolist() == heads
    two = np.ones((3, 2), dtype=bool)  # where pairs have the width of a mask
    assert np.argwhere(masks.listed_heads_mask([[0, 1], [2, 0]], two, "key")).tolist() == [[0, 1], [2, 0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("layer,heads\n0,3\n", "key: no column head in heads.csv; it has layer, heads"),
        ("layer,head\n", "no rows; expected numbers of layers and heads, from 0"),
        ("layer,head\n1e300,0\n", "key: heads.csv has layer 1e300, head 0; expected numbers"),
        ("layer,head\n0,inf\n", "key: heads.csv has layer 0, head inf; expected numbers"),
        ("layer,head\n0,-1\n", "key: heads.csv has layer 0, head -1; expected numbers"),
        ("layer,head\n0,1.5\n", "layer 0, head 1.5"),
        ("layer,head\nfirst,1\n", "layer first, head 1"),
        ("layer,head\n0,1\n0,1\n", "has layer 0, head 1 twice"),
        ("layer,head\n3,1\n", "got layer 3, head 1; the model has layers 0 to 2 with heads 0 to 3"),
        ("layer,head\n1,4\n", "got layer 1, head 4; the model has layers 0 to 2"),
        ("layer,head\n" + "".join(f"{i},{j}\n" for i in range(3) for j in range(4)), "got all 12 heads"),
    ],
)
def test_lists_that_are_refused(tmp_path, text, message):
    path = tmp_path / "heads.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=re.escape(message)):
        masks.listed_heads_mask(head_settings.read_head_list(str(path), "key"), EVERY, "key")


def test_heads_that_ragged_layers_lack_are_refused():
    exists = np.arange(4) < np.array([4, 0, 2])[:, None]
    assert np.argwhere(masks.listed_heads_mask([[2, 1], [0, 3]], exists, "key")).tolist() == [[0, 3], [2, 1]]
    for (layer, head), has in {(1, 0): 0, (2, 2): 2}.items():
        message = f"key: got layer {layer}, head {head}; the model has {has} heads in that layer"
        with pytest.raises(DataError, match=message):
            masks.listed_heads_mask([[0, 0], [layer, head]], exists, "key")
    with pytest.raises(DataError, match="got all 6 heads"):
        masks.listed_heads_mask(np.argwhere(exists).tolist(), exists, "key")


def test_masks_have_as_many_heads_as_the_list():
    """Random ones are drawn by the name of the list, and so the same for seeds with other importance."""
    rng, mask = np.random.default_rng(0), np.zeros((6, 12), dtype=bool)
    mask[1, :3] = mask[4, 7] = True
    importances = {task: rng.random(mask.shape) for task in "ab"}
    planned = masks.listed_masks({"mine": mask}, importances, 30)["mine"]
    fields = [(m.pruned_for, m.order, m.fraction, m.draw) for m in planned]
    assert fields[:3] == [
        ("none", None, 0, None), ("listed", None, 4 / 72, None), ("shared", None, 4 / 72, None)
    ]  # fmt: skip
    assert fields[3:] == [("random", None, 4 / 72, draw) for draw in range(30)]
    none, own, shared, *drawn = (m.closed for m in planned)
    assert none.dtype == bool and not none.any() and (own == mask).all()
    assert (shared == top_heads(joint_importance([*importances.values()]), 4)).all()
    rng = np.random.default_rng(derive(0, "listed heads", "mine"))
    expected = [random_by_layer(mask, np.ones_like(mask), rng) for _ in range(30)]
    assert np.array_equal(drawn, expected) and len({each.tobytes() for each in drawn}) > 25


@pytest.mark.parametrize(
    ("confidence", "draws", "expected"),
    [(0.95, 2, 19), (0.95, 50, 50), (0.9, 2, 9), (0.99, 2, 99), (0.97, 2, 33)],
)
def test_so_many_random_sets_that_p_can_be_small(confidence, draws, expected):
    found = study(pruning={"draws": draws}, dissociation={"confidence": confidence}).list_draws
    assert found == expected and 1 / (1 + expected) <= 1 - confidence + 1e-9
