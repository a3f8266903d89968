"""Heads that a table lists."""

import re

import numpy as np
import pytest

from headspec.config.loading import load
from headspec.errors import DataError, HeadspecError
from headspec.heads import head_settings, listed
from headspec.heads.ranking import shared_map, top_heads
from support.running.studies import CONFIG

EVERY = np.ones((3, 4), dtype=bool)


def write(path, text: str) -> str:
    path.write_text(text)
    return str(path)


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
    heads = head_settings.read_head_list(write(tmp_path / name, text), "key")
    assert heads == [[0, 3], [2, 1]]
    mask = listed.closed(heads, EVERY, "key")
    assert np.argwhere(mask).tolist() == [[0, 3], [2, 1]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("layer,heads\n0,3\n", "key: no column head in heads.csv; it has layer, heads"),
        ("layer,head\n", "no rows; expected numbers of layers and heads, from 0"),
        ("layer,head\n0,-1\n", "key: heads.csv has layer 0, head -1; expected numbers"),
        ("layer,head\n0,1.5\n", "layer 0, head 1.5"),
        ("layer,head\nfirst,1\n", "layer first, head 1"),
        ("layer,head\n0,1\n0,1\n", "has layer 0, head 1 twice"),
        ("layer,head\n3,1\n", "got layer 3, head 1; the model has layers 0 to 2 with heads 0 to 3"),
        ("layer,head\n1,4\n", "got layer 1, head 4"),
        ("layer,head\n" + "".join(f"{i},{j}\n" for i in range(3) for j in range(4)), "got all 12 heads"),
    ],
)
def test_lists_that_are_refused(tmp_path, text, message):
    with pytest.raises(DataError, match=re.escape(message)):
        listed.closed(head_settings.read_head_list(write(tmp_path / "heads.csv", text), "key"), EVERY, "key")


def test_heads_that_ragged_layers_lack_are_refused():
    exists = np.arange(4) < np.array([4, 0, 2])[:, None]
    assert np.argwhere(listed.closed([[2, 1], [0, 3]], exists, "key")).tolist() == [[0, 3], [2, 1]]
    for (layer, head), has in {(1, 0): 0, (2, 2): 2}.items():
        message = f"key: got layer {layer}, head {head}; the model has {has} heads in that layer"
        with pytest.raises(DataError, match=message):
            listed.closed([[0, 0], [layer, head]], exists, "key")
    with pytest.raises(DataError, match="got all 6 heads"):
        listed.closed(np.argwhere(exists).tolist(), exists, "key")


def test_every_list_of_a_study_is_checked(tmp_path):
    lists = {"gone": "nowhere.csv", "odd": write(tmp_path / "odd.csv", "layer,head\n0,x\n")}
    models = {"bert": CONFIG["models"]["bert"] | {"heads": lists}}
    with pytest.raises(HeadspecError) as caught:
        head_settings.check_head_lists(load(CONFIG | {"models": models}))
    first, second = str(caught.value).split("\n")
    assert first.startswith("models.bert.heads.gone: no file or folder 'nowhere.csv'")
    assert second.startswith("models.bert.heads.odd: odd.csv has layer 0, head x")


def test_masks_have_as_many_heads_as_the_list():
    rng = np.random.default_rng(0)
    mask = np.zeros((6, 12), dtype=bool)
    mask[1, :3] = mask[4, 7] = True
    importances = {task: rng.random(mask.shape) for task in "ab"}
    planned = listed.masks({"mine": mask}, importances, 30)["mine"]
    none, own, shared, *drawn = planned
    assert not none.closed.any() and (own.closed == mask).all()
    assert (shared.closed == top_heads(shared_map([*importances.values()]), 4)).all()
    assert len(drawn) == 30 and len({each.closed.tobytes() for each in drawn}) > 25
    assert all((each.closed.sum(axis=1) == mask.sum(axis=1)).all() for each in drawn)
    other = {task: rng.random(mask.shape) for task in "ab"}  # another seed's
    again = listed.masks({"mine": mask}, other, 30)["mine"][3:]
    assert all((a.closed == b.closed).all() for a, b in zip(drawn, again, strict=True))


@pytest.mark.parametrize(("confidence", "draws", "expected"), [(0.95, 2, 19), (0.95, 50, 50), (0.9, 2, 10)])
def test_so_many_random_sets_that_p_can_be_small(confidence, draws, expected):
    study = load(CONFIG | {"pruning": {"draws": draws}, "dissociation": {"confidence": confidence}})
    assert study.list_draws == expected and 1 / (1 + expected) <= 1 - confidence
