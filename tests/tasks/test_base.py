"""Units in tables, what their labels count, and tags."""

import pandas as pd
import pytest

from headspec.errors import DataError
from headspec.tasks.kinds import KINDS
from headspec.tasks.metrics import score
from headspec.tasks.tags.data import DATA
from headspec.tasks.words.base import gold_counts, matched, parsed, word_task, written

WORD_KINDS = {name: kind for name, kind in KINDS.items() if kind.on_words}
WORDS = ["Ünal", "saw", "it", "."]
#: type: cells of a sentence
CELLS = {
    "tags": (["PROPN", "VERB", "PRON", "PUNCT"],),
    "spans": (["B-PER", "O", "B-THING", "O"],),
    "dependencies": ([2, 0, 2, 2], ["nsubj", "root", "obj", "punct"]),
    "constituents": ("(ROOT (S (NP (NNP Ünal)) (VP (VBD saw) (NP (PRP it))) (. .)))",),
    "roles": ([1], [["ARG0", "V", "ARG1", "O"]]),
}
#: what there is to find: words, names, words, NP, VP and S, and two arguments
NUMBER = {"tags": 4, "spans": 2, "dependencies": 4, "constituents": 4, "roles": 2}


@pytest.mark.parametrize("name", WORD_KINDS)
def test_what_every_type_has(name):
    task = word_task(name)
    units = task.units(WORDS, *CELLS[name])
    assert parsed(written(units)) == units and "Ünal" not in written(units)
    assert all(len(unit) == task.places + 1 and max(unit[:-1]) < 4 for unit in units)
    assert len(CELLS[name]) == WORD_KINDS[name].label_columns
    label = gold_counts(task, [units, units], [4, 4])
    assert label[:, 0].tolist() == [NUMBER[name]] * 2
    predicted = [unit for unit in units if unit[-1] not in task.given]
    assert task.count(units, predicted)[0] == task.count(units, units)[0] == NUMBER[name]
    assert task.count(units, [])[0] == 0
    for metric in KINDS[name].metrics:
        assert score(metric, label, [task.count(units, predicted)] * 2) == 1

    # the blind guess reads no sentence: equal lengths have equal guesses, of units that are places of words
    one, other, short = task.blind([units, units[:1], []], [4, 4, 1])
    assert one == other and all(max(unit[:-1]) < 4 for unit in one)
    assert all(max(unit[:-1]) < 1 for unit in short)
    assert task.blind([], []) == []


@pytest.mark.parametrize(
    ("name", "cells", "reason"),
    [
        ("spans", (["O", "S-X"],), r"word 2 \('b'\) has tag S-X, expected O, or B- or I- and a type"),
        ("spans", (["B-", "O"],), "word 1 .* has tag B-,"),
        ("spans", (["O"],), "it has 2 words and 1 tags"),
        (
            "spans",
            ([{"start": 1, "end": 3, "type": "X"}],),
            "span 1 has start 1 and end 3, but there are 2 wor",
        ),
        ("spans", ([{"start": 1, "end": 1, "type": "X"}],), "span 1 has start 1 and end 1"),
        ("spans", ([{"start": 0, "type": "X"}],), "span 1 is .* expected start, end and type"),
        (
            "spans",
            ([{"start": at, "end": 2, "type": "XY"[at]} for at in (0, 1)],),
            "X and Y overlap at word 2",
        ),
        ("roles", ([0, 1], [["V", "O"]]), "it has 2 predicates and 1 lists of roles"),
        ("roles", ([2], [["V", "O"]]), "predicate 1 is 2, expected 0 to 1"),
        ("roles", ([-1], [["V", "O"]]), "predicate 1 is -1"),
        ("roles", ([0, 0], [["V", "O"]] * 2), "word 1 is a predicate twice"),
        ("roles", ([0], [["V"]]), "it has 2 words and 1 roles"),
        (
            "roles",
            ([0], [["B-V", "I-ARG1"]]),
            r"word 2 \('b'\) has tag I-ARG1, but the word before has no ARG1",
        ),
        ("constituents", ("(S (NN a))",), "it has 2 words and a tree of 1"),
        ("constituents", ("(S (NN a) (NN c))",), r"word 2 \('b'\) is 'c' in its tree"),
        ("constituents", ("(S (NN a) (NN b)",), "its tree lacks 1 closing brackets"),
        ("constituents", ("(S (NN a) (NN b)))",), r"its tree cannot go on with '\)' after word 2"),
        ("constituents", ("(S (NN a)) (S (NN b))",), r"cannot go on with '\(S' after word 1"),
        ("constituents", ("(S (NN a b))",), "cannot go on with 'b' after word 1"),
        ("constituents", ("(S (NN a) b)",), "cannot go on with 'b' after word 1"),
        ("constituents", ("(S (NP) (NN a) (NN b))",), r"cannot go on with '\)' after word 0"),
        ("constituents", ("(S (NN a (NN b)))",), r"cannot go on with '\(NN' after word 1"),
        ("constituents", ("a b",), "cannot go on with 'a' after word 0"),
        ("constituents", ("",), "it has no tree"),
        ("constituents", (None,), "it has None, expected a tree in brackets"),
    ],
)
def test_cells_that_annotate_no_sentence_of_two_words_are_refused(name, cells, reason):
    with pytest.raises(ValueError, match=reason):
        word_task(name).units(["a", "b"], *cells)


def test_units_match_once_each():
    assert matched([(0, "a"), (0, "a"), (1, "b")], [(0, "a")] * 3 + [(1, "c")]) == (2, 4)


def test_tags_and_their_blind_guess():
    tags, units = word_task("tags"), [(0, "X"), (1, "Y")]
    assert tags.units(["a", "b"], "X  Y") == units
    assert tags.blind([units], [2]) == [[(0, "X"), (1, "X")]]  # a tie
    assert gold_counts(tags, [units], [2]).tolist() == [[2, 1, 2]]


def test_other_labels_than_those_of_training_are_refused_if_they_are_many():
    one, rare, known = '[[0,"X"]]', '[[0,"Y"]]', {"labels": ["X"]}
    DATA.check_labels(pd.Series([one] * 19 + [rare]), known, "tasks.pos.label", "validation.parquet")
    expected = r"2 of 21 units of validation\.parquet have labels .* such as Y, first in row 20; .* are X$"
    with pytest.raises(DataError, match=expected):
        DATA.check_labels(pd.Series([one] * 19 + [rare] * 2), known, "tasks.pos.label", "validation.parquet")
