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
