"""Semantic roles, and arguments as srl-eval.pl counts them."""

import pytest

from headspec.words.roles import TASK

WORDS = ["The", "book", "she", "gave", "him", ",", "it", "said"]
V = [(3, 3, 3, "V"), (7, 7, 7, "V")]


def test_units_of_bio_tags_and_of_names():
    bio = ["B-ARG1", "I-ARG1", "B-ARG0", "B-V", "B-ARG2", "O", "O", "O"]
    names = ["C-ARG1"] * 5 + ["O", "ARG0", "V"]
    units = [V[0], (3, 0, 1, "ARG1"), (3, 2, 2, "ARG0"), (3, 4, 4, "ARG2")]
    units += [V[1], (7, 0, 4, "C-ARG1"), (7, 6, 6, "ARG0")]
    assert TASK.units(WORDS, [3, 7], [bio, names]) == units
    assert TASK.units(WORDS, [], []) == []


def test_particles_of_predicates_are_none_of_theirs():
    assert TASK.units(["put", "it", "on"], [0], [["V", "ARG1", "C-V"]]) == [(0, 0, 0, "V"), (0, 1, 1, "ARG1")]


@pytest.mark.parametrize(
    ("predicted", "counts"),
    [
        ([(3, 0, 1, "ARG1"), (3, 4, 5, "C-ARG1"), (3, 2, 2, "ARG0")], (2, 2)),  # all of it
        ([(3, 0, 1, "ARG1"), (3, 2, 2, "ARG0")], (1, 2)),  # an argument without its other part
        ([(3, 0, 1, "ARG1"), (3, 4, 5, "ARG1")], (0, 2)),  # two arguments instead of one
        ([(3, 0, 1, "C-ARG1"), (3, 4, 5, "C-ARG1")], (1, 1)),  # the first part may be called so
        ([(3, 2, 2, "C-ARG0")], (1, 1)),
        ([(3, 2, 2, "R-ARG0")], (0, 1)),
        ([(7, 2, 2, "ARG0")], (0, 1)),  # of another predicate
        ([(7, 0, 1, "ARG1"), (3, 4, 5, "C-ARG1")], (0, 2)),
        (V, (0, 0)),
    ],
)  # fmt: skip
def test_arguments(predicted, counts):
    gold = [*V, (3, 0, 1, "ARG1"), (3, 2, 2, "ARG0"), (3, 4, 5, "C-ARG1")]
    assert TASK.count(gold, gold) == (2, 2)
    assert TASK.count(gold, predicted) == TASK.count(gold, predicted[::-1]) == counts


def test_the_last_argument_of_a_role_continues():
    gold = [V[0], (3, 0, 0, "ARG1"), (3, 1, 1, "ARG1"), (3, 4, 4, "C-ARG1")]
    assert TASK.count(gold, gold) == (2, 2)
    assert TASK.count(gold, [(3, 0, 0, "ARG1"), (3, 1, 1, "C-ARG1"), (3, 4, 4, "ARG1")]) == (0, 2)
    assert TASK.count(gold, [(3, 0, 0, "ARG1")]) == (1, 1)


@pytest.mark.parametrize(
    ("predicates", "roles", "reason"),
    [
        ([0, 1], [["V", "O"]], "it has 2 predicates and 1 lists of roles"),
        ([2], [["V", "O"]], "predicate 1 is 2, expected 0 to 1"),
        ([-1], [["V", "O"]], "predicate 1 is -1"),
        ([0, 0], [["V", "O"]] * 2, "word 1 is a predicate twice"),
        ([0], [["V"]], "it has 2 words and 1 roles"),
        ([0], [["B-V", "I-ARG1"]], r"word 2 \('b'\) has tag I-ARG1, but the word before has no ARG1"),
    ],
)  # fmt: skip
def test_no_roles(predicates, roles, reason):
    with pytest.raises(ValueError, match=reason):
        TASK.units(["a", "b"], predicates, roles)
