"""Semantic roles, and arguments as srl-eval.pl counts them."""

import pytest

from headspec.tasks.metrics import score
from headspec.tasks.roles.units import TASK
from headspec.tasks.words.base import gold_counts

WORDS = ["The", "book", "she", "gave", "him", ",", "it", "said"]
V = [(3, 3, 3, "V"), (7, 7, 7, "V")]


def test_units_of_bio_tags_and_of_names():
    bio = ["B-ARG1", "I-ARG1", "B-ARG0", "B-V", "B-ARG2", "O", "O", "O"]
    names = ["C-ARG1"] * 5 + ["O", "ARG0", "V"]
    units = [V[0], (3, 0, 1, "ARG1"), (3, 2, 2, "ARG0"), (3, 4, 4, "ARG2")]
    units += [V[1], (7, 0, 4, "C-ARG1"), (7, 6, 6, "ARG0")]
    assert TASK.units(WORDS, [3, 7], [bio, names]) == units
    assert TASK.units(WORDS, [], []) == []
    particle = TASK.units(["put", "it", "on"], [0], [["V", "ARG1", "C-V"]])
    assert particle == [(0, 0, 0, "V"), (0, 1, 1, "ARG1")]  # part of the predicate


SPLIT = [*V, (3, 0, 1, "ARG1"), (3, 2, 2, "ARG0"), (3, 4, 5, "C-ARG1")]
TWICE = [V[0], (3, 0, 0, "ARG1"), (3, 1, 1, "ARG1"), (3, 4, 4, "C-ARG1")]


@pytest.mark.parametrize(
    ("gold", "predicted", "counts"),
    [
        (SPLIT, [(3, 0, 1, "ARG1"), (3, 4, 5, "C-ARG1"), (3, 2, 2, "ARG0")], (2, 2)),  # all of it
        (SPLIT, [(3, 0, 1, "ARG1"), (3, 2, 2, "ARG0")], (1, 2)),  # an argument without its other part
        (SPLIT, [(3, 0, 1, "ARG1"), (3, 4, 5, "ARG1")], (0, 2)),  # two arguments instead of one
        (SPLIT, [(3, 0, 1, "C-ARG1"), (3, 4, 5, "C-ARG1")], (1, 1)),  # the first part may be called so
        (SPLIT, [(3, 2, 2, "C-ARG0")], (1, 1)),
        (SPLIT, [(3, 2, 2, "R-ARG0")], (0, 1)),
        (SPLIT, [(7, 2, 2, "ARG0")], (0, 1)),  # of another predicate
        (SPLIT, [(7, 0, 1, "ARG1"), (3, 4, 5, "C-ARG1")], (0, 2)),
        (SPLIT, V, (0, 0)),
        # the last argument of a role continues
        (TWICE, [(3, 0, 0, "ARG1"), (3, 1, 1, "C-ARG1"), (3, 4, 4, "ARG1")], (0, 2)),
        (TWICE, [(3, 0, 0, "ARG1")], (1, 1)),
    ],
)  # fmt: skip
def test_arguments_are_right_with_all_their_parts(gold, predicted, counts):
    assert TASK.count(gold, gold) == (2, 2)
    assert TASK.count(gold, predicted) == TASK.count(gold, predicted[::-1]) == counts


def test_the_example_of_conll_2005():
    """The sentence with which the shared task explains its format, and a system's answer.

    Gold: face A0 (0-5), A1 (7-17); explore A0 (0-5), A1 (12-17). Found: face A0 (0-5) right, A1 (7-16) a word
    too short; explore A1 (12-17) right, AM-LOC (9-9) not there, A0 missed. srl-eval.pl leaves out V:
    correct 2, excess 2, missed 2; precision 2/4, recall 2/4, F1 .5.
    """
    text = "The $ 1.4 billion robot spacecraft faces a six-year journey to explore Jupiter and its 16 known"
    words = [*text.split(), "moons", "."]

    def tags(*spans):
        found = ["O"] * len(words)
        for first, last, role in spans:
            found[first : last + 1] = [f"B-{role}", *[f"I-{role}"] * (last - first)]
        return found

    def units(*arguments):
        return TASK.units(words, [6, 11], [tags(*each) for each in arguments])

    face, explore = (6, 6, "V"), (11, 11, "V")
    gold = units([(0, 5, "A0"), face, (7, 17, "A1")], [(0, 5, "A0"), explore, (12, 17, "A1")])
    found = units([(0, 5, "A0"), face, (7, 16, "A1")], [(9, 9, "AM-LOC"), explore, (12, 17, "A1")])
    assert TASK.count(gold, found) == (2, 4) and TASK.count(gold, gold) == (4, 4)
    label, prediction = gold_counts(TASK, [gold], [len(words)]), [TASK.count(gold, found)]
    assert score("role_f1", label, prediction) == 0.5
