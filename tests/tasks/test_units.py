"""Units of words: what every kind has, spans compared with seqeval, and roles with srl-eval.pl."""

import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import f1_score

from headspec.config.sections.task import Task
from headspec.errors import DataError
from headspec.tasks import data
from headspec.tasks.kinds.words import span_heads, spans, units
from headspec.tasks.kinds.words.data import TAGS_DATA
from headspec.tasks.kinds.words.spans import ROLES_TASK as ROLES
from headspec.tasks.kinds.words.spans import SPANS_TASK as SPANS
from headspec.tasks.kinds.words.units import gold_counts, matched, parsed, word_task, written
from headspec.tasks.metrics import score
from headspec.tasks.registry import KINDS

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
def test_every_kind_writes_counts_and_guesses_its_units(name):
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
        ("spans", ([{"start": 1, "end": 3, "type": "X"}],), "span 1 has start 1 and end 3, but there are 2"),
        ("spans", ([{"start": 1, "end": 1, "type": "X"}],), "span 1 has start 1 and end 1"),
        ("spans", ([{"start": 0, "type": "X"}],), "span 1 is .* expected start, end and type"),
        ("spans", ([{"start": 0, "end": 2, "type": type} for type in "XY"],), "X and Y overlap at word 1"),
        ("roles", ([0, 1], [["V", "O"]]), "it has 2 predicates and 1 lists of roles"),
        ("roles", ([2], [["V", "O"]]), "predicate 1 is 2, expected 0 to 1"),
        ("roles", ([-1], [["V", "O"]]), "predicate 1 is -1"),
        ("roles", ([0, 0], [["V", "O"]] * 2), "word 1 is a predicate twice"),
        ("roles", ([0], [["V"]]), "it has 2 words and 1 roles"),
        ("roles", ([0], [["B-V", "I-A"]]), r"word 2 \('b'\) has tag I-A, but the word before has no A"),
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
    TAGS_DATA.check_labels(pd.Series([one] * 19 + [rare]), known, "tasks.pos.label", "validation.parquet")
    expected = r"2 of 21 units of validation\.parquet have labels .* such as Y, first in row 20; .* are X$"
    with pytest.raises(DataError, match=expected):
        TAGS_DATA.check_labels(
            pd.Series([one] * 19 + [rare] * 2), known, "tasks.pos.label", "validation.parquet"
        )


# --- spans


#: tags of a sentence, with any I-
tags = st.lists(st.sampled_from(["O", "B-X", "I-X", "B-Y-Z", "I-Y-Z"]), min_size=1, max_size=9)


def loose(sentence):
    """Spans of tags that need not be consistent."""
    return list(spans.spans_of(None if tag == "O" else (tag[0] == "B", tag[2:]) for tag in sentence))


def ours(gold, predicted):
    pairs = [(loose(a), loose(b)) for a, b in zip(gold, predicted, strict=True)]
    label = gold_counts(SPANS, [a for a, _ in pairs], [len(a) for a in gold])
    return score("span_f1", label, [SPANS.count(*pair) for pair in pairs])


@given(st.lists(st.tuples(tags, tags), min_size=1, max_size=4))
def test_f1_is_that_of_seqeval(pairs):
    gold, predicted = zip(*((a[: len(b)], b[: len(a)]) for a, b in pairs), strict=True)
    assert ours(gold, predicted) == pytest.approx(f1_score([*gold], [*predicted], zero_division=0), abs=1e-12)


def test_examples_of_seqeval():
    """Those of its documentation (get_entities, f1_score)."""
    assert loose(["B-PER", "I-PER", "O", "B-LOC"]) == [(0, 1, "PER"), (3, 3, "LOC")]
    gold = [["O", "O", "O", "B-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]]
    predicted = [["O", "O", "B-MISC", "I-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]]
    assert ours(gold, predicted) == 0.5


@given(tags)
def test_consistent_tags_are_read_and_others_refused(sentence):
    words = [f"w{place}" for place in range(len(sentence))]
    wrong = [
        place
        for place, tag in enumerate(sentence)
        if tag[0] == "I" and (place == 0 or sentence[place - 1][2:] != tag[2:])
    ]
    if wrong:
        with pytest.raises(ValueError, match=rf"word {wrong[0] + 1} \('w{wrong[0]}'\) has tag I-"):
            SPANS.units(words, sentence)
    else:
        units = SPANS.units(words, " ".join(sentence))
        assert units == loose(sentence)
        dicts = [{"start": first, "end": last + 1, "type": label} for first, last, label in units]
        assert SPANS.units(words, dicts[::-1]) == units


# --- spans counted in characters of a text

PLACES = {
    "Ann met (Bob Ray), in Paris.": [(0, 3, 0, 1), (9, 16, 2, 4), (22, 27, 5, 6), (22, 28, 5, 6)],
    "  In Rome  and New\tYork": [(2, 9, 0, 1), (15, 23, 2, 4), (9, 14, 1, 2)],
    "I": [(0, 1, 0, 1)],
}


def spans_of(*places):
    return [{"start": start, "end": end, "type": "X"} for start, end in places]


@pytest.mark.parametrize("text", PLACES)
def test_characters_are_the_words_that_they_are_in(text):
    for start, end, first, last in PLACES[text]:
        (found,) = units.to_words(text, spans_of((start, end)))
        assert found == {"start": first, "end": last, "type": "X"}


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ((0, 2), "span 1 is 'An', a part of 'Ann'; expected whole words"),
        ((1, 7), "is 'nn met', a part of 'Ann met.'"),
        ((3, 4), "span 1 has start 3 and end 4, but there are 8 characters"),
        ((4, 9), "span 1 has start 4 and end 9, but there are 8 characters"),
        ((-3, 3), "span 1 has start -3"),
        ((3, 3), "span 1 has start 3 and end 3"),
    ],
)
def test_characters_that_are_no_words_are_refused(place, said):
    with pytest.raises(ValueError, match=said):
        units.to_words("Ann met.", spans_of(place))


def sentences(cells, texts="Ann met Bob in town today again", as_lists=False):
    """The units of rows with spans, as `prepare` reads them."""
    texts = [texts] * len(cells) if isinstance(texts, str) else texts
    words = [text.split() for text in texts] if as_lists else texts
    frame = pd.DataFrame({"words": words, "names": pd.Series(cells, dtype=object)})
    task = Task(source="x.jsonl", type="spans", text_a="words")
    return [parsed(label) for label in data.reader("spans").rows(frame, task, "tasks.t", "x.jsonl")["label"]]


FIRST, BOTH = spans_of((0, 3)), spans_of((0, 3), (8, 11))


def test_spans_of_texts_are_in_characters_where_they_have_words_there():
    ann, bob = (0, 0, "X"), (2, 2, "X")
    assert sentences([FIRST] * 10) == [[ann]] * 10
    assert sentences([str(FIRST)] * 10 + ["[]"]) == [*[[ann]] * 10, []]
    assert sentences([FIRST, BOTH, []]) == [[ann], [ann, bob], []]  # there are no 11 words
    # lists say what the words are
    assert sentences([FIRST] * 10, as_lists=True) == [[(0, 2, "X")]] * 10
    # some have no word there
    assert sentences([spans_of((0, 2), (3, 7))] * 2) == [[(0, 1, "X"), (3, 6, "X")]] * 2
    assert sentences([FIRST] * 10 + [spans_of((1, 2))]) == [*[[(0, 2, "X")]] * 10, [(1, 1, "X")]]
    # both are the same
    assert sentences([spans_of((0, 1))], "I saw") == [[(0, 0, "X")]]


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([FIRST] * 9, "x.jsonl: the spans of all 9 rows with spans may be counted in words or in characters"),
        ([BOTH, spans_of((8, 10))], "row 2: span 1 is 'Bo', a part of 'Bob'"),
        ([BOTH, [{"start": 0, "type": "X"}]], "row 2: span 1 is .* expected start, end and type"),
        ([spans_of((0, 2)), spans_of((1, 9))], "row 2: span 1 has start 1 and end 9, but there are 7"),
    ],
)
def test_spans_that_are_neither_are_refused(cells, said):
    with pytest.raises(DataError, match=rf"^tasks\.t\.label: .*{said}"):
        sentences(cells)


# --- spans as classes of words


@given(st.lists(st.integers(0, 6), min_size=1, max_size=10))
def test_spans_of_classes_come_back(best):
    """Classes of spans give the same spans, each of which starts with a beginning."""
    spans = span_heads.bio_spans(best)
    rows, found = torch.zeros(len(spans), dtype=torch.long), torch.tensor(spans, dtype=torch.long)
    (again,) = span_heads.word_classes(rows, found.reshape(-1, 3), (1, len(best)))
    assert span_heads.bio_spans(again.tolist()) == spans
    assert [each > 0 for each in best] == (again > 0).tolist()


def test_classes_of_spans():
    assert span_heads.bio_classes(2) == 5
    rows, spans = torch.tensor([1, 1]), torch.tensor([[0, 1, 1], [2, 2, 0]])
    assert span_heads.word_classes(rows, spans, (2, 4)).tolist() == [[0] * 4, [3, 4, 1, 0]]
    # each begins where the type changes
    assert span_heads.bio_spans([0, 4, 4, 2, 1]) == [(1, 2, 1), (3, 3, 0), (4, 4, 0)]


# --- roles


BOOK = ["The", "book", "she", "gave", "him", ",", "it", "said"]
V = [(3, 3, 3, "V"), (7, 7, 7, "V")]


def test_units_of_bio_tags_and_of_names():
    bio = ["B-ARG1", "I-ARG1", "B-ARG0", "B-V", "B-ARG2", "O", "O", "O"]
    names = ["C-ARG1"] * 5 + ["O", "ARG0", "V"]
    units = [V[0], (3, 0, 1, "ARG1"), (3, 2, 2, "ARG0"), (3, 4, 4, "ARG2")]
    units += [V[1], (7, 0, 4, "C-ARG1"), (7, 6, 6, "ARG0")]
    assert ROLES.units(BOOK, [3, 7], [bio, names]) == units
    assert ROLES.units(BOOK, [], []) == []
    particle = ROLES.units(["put", "it", "on"], [0], [["V", "ARG1", "C-V"]])
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
    assert ROLES.count(gold, gold) == (2, 2)
    assert ROLES.count(gold, predicted) == ROLES.count(gold, predicted[::-1]) == counts


def test_the_example_of_conll_2005():
    """The sentence with which the shared task explains its format, and a system's answer.

    The $ 1.4 billion robot spacecraft faces a six-year journey to explore Jupiter and its 16 known moons .

    Gold: faces A0 (0-5), A1 (7-17); explore A0 (0-5), A1 (12-17). Found: faces A0 (0-5) right, A1 (7-16) a
    word too short; explore A1 (12-17) right, AM-LOC (9-9) not there, A0 missed. srl-eval.pl leaves out V:
    correct 2, excess 2, missed 2; precision 2/4, recall 2/4, F1 .5.
    """
    verbs = [(6, 6, 6, "V"), (11, 11, 11, "V")]
    gold = [*verbs, (6, 0, 5, "A0"), (6, 7, 17, "A1"), (11, 0, 5, "A0"), (11, 12, 17, "A1")]
    found = [*verbs, (6, 0, 5, "A0"), (6, 7, 16, "A1"), (11, 9, 9, "AM-LOC"), (11, 12, 17, "A1")]
    assert ROLES.count(gold, found) == (2, 4) and ROLES.count(gold, gold) == (4, 4)
    assert score("role_f1", gold_counts(ROLES, [gold], [19]), [ROLES.count(gold, found)]) == 0.5
