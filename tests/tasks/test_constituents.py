"""Trees in brackets, and brackets as EVALB counts them."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headspec.tasks.kinds.words.trees import CONSTITUENTS_TASK as TASK
from headspec.tasks.kinds.words.trees import best_spans, parse_tree
from headspec.tasks.kinds.words.units import gold_counts
from headspec.tasks.metrics import score

GOLD = "(S (A (P this)) (B (Q is) (A (R a) (T test))))"
#: test trees of the sample that comes with EVALB, whose gold trees are GOLD; matched, gold and test brackets
SAMPLE = [
    (GOLD, (4, 4, 4)),
    ("(S (A (P this)) (B (Q is) (C (R a) (T test))))", (3, 4, 4)),
    ("(S (A (P this)) (B (Q is) (A (R a) (U test))))", (4, 4, 4)),
    ("(S (C (P this)) (B (Q is) (A (R a) (U test))))", (3, 4, 4)),
    ("(S (A (P this)) (B (Q is) (R a) (A (T test))))", (3, 4, 4)),
    ("(S (A (P this) (Q is)) (A (R a) (T test)))", (2, 4, 3)),
    ("(S (P this) (Q is) (R a) (T test))", (1, 4, 1)),
    ("(S (A (P this)) (B (Q is) (A (A (R a) (T test)))))", (4, 4, 5)),
    ("(S (A (P this)) (B (Q is) (A (A (A (A (A (R a) (T test))))))))", (4, 4, 8)),
    ("(TOP (S (A (P this)) (B (Q is) (A (R a) (T test)))))", (4, 4, 4)),
    ("(S (A-SBJ-1 (P this)) (B-WHATEVER (Q is) (A (R a) (T test))))", (4, 4, 4)),
]
LABELS = ["NP", "VP-PRD", "S", "PRT", "ADVP=2"]
TAGS = ["NN", ",", ".", "-LRB-"]


def units(tree):
    return TASK.units([word for _, word in parse_tree(tree)[1]], tree)


@pytest.mark.parametrize(("tree", "counts"), SAMPLE)
def test_the_sample_of_evalb(tree, counts):
    gold, found = units(GOLD), units(tree)
    right, number = TASK.count(gold, found)
    assert (right, TASK.count(gold, gold)[0], number) == counts


@pytest.mark.parametrize("above", ["TOP", "ROOT", "", "S1", "VROOT", "Root", "top", "TOP-1"])
def test_the_node_above_a_sentence_is_no_constituent_whatever_a_treebank_calls_it(above):
    assert units(f"({above} {GOLD})") == units(f"(ROOT (TOP {GOLD}))") == units(GOLD)
    assert units(f"({above} (P a) (Q b))") == []


@st.composite
def trees(draw, words):
    """A tree in brackets of these (tag, word), and its brackets as EVALB counts them."""
    label = draw(st.sampled_from(LABELS))
    bare = {"VP-PRD": "VP", "ADVP=2": "ADVP", "PRT": "ADVP"}.get(label, label)
    own = tuple(word for tag, word in words if tag not in (",", "."))
    cuts = sorted(draw(st.sets(st.integers(1, len(words) - 1), max_size=2)) if len(words) > 1 else [])
    texts, brackets = [], Counter({(own, bare): 1} if own else {})
    for start, end in zip([0, *cuts], [*cuts, len(words)], strict=True):
        part = words[start:end]
        if len(part) == 1 and draw(st.booleans()):
            texts.append(f"({part[0][0]} {part[0][1]})")
        elif draw(st.integers(0, 3)) == 0:
            texts += [f"({tag} {word})" for tag, word in part]
        else:
            text, below = draw(trees(part))
            texts.append(text)
            brackets += below
    return f"({label} {' '.join(texts)})", brackets


@st.composite
def pairs(draw):
    """Two trees of the same words, and their brackets."""
    tags = draw(st.lists(st.sampled_from(TAGS), min_size=1, max_size=6))
    words = [(tag, f"w{at}") for at, tag in enumerate(tags)]
    return draw(trees(words)), draw(trees(words))


@given(st.lists(pairs(), min_size=1, max_size=3))
def test_f1_of_brackets(examples):
    """Brackets compared as sets of words, without places."""
    gold, found = zip(*((units(a), units(b)) for (a, _), (b, _) in examples), strict=True)
    label = gold_counts(TASK, gold, [max(unit[1] for unit in each) + 1 for each in gold])
    prediction = [TASK.count(*pair) for pair in zip(gold, found, strict=True)]
    right = sum((a & b).total() for (_, a), (_, b) in examples)
    total = sum((a + b).total() for (_, a), (_, b) in examples)
    expected = 2 * right / total if total else 0
    assert score("bracket_f1", label, prediction) == pytest.approx(expected, abs=1e-12)


def test_labels_of_the_same_words_are_joined():
    tree = "( (S (VP (VB Go) (NP (NP-TMP (NN now)))) (-RRB- -RRB-) (. .)))"
    assert TASK.units(["Go", "now", ")", "."], tree) == [
        (0, 3, "S"), (0, 1, "VP"), (1, 1, "NP+NP"), (3, 3, "."),
    ]  # fmt: skip


def test_the_blind_guess():
    """Brackets that end with the sentence, except its full stop."""
    tree = "(S (NP (PRP I)) (VP (VBP like) (VP (TO to) (VP (VB read)))) (. .))"
    guess = [(0, 4, "S"), (1, 4, "VP"), (2, 4, "VP"), (3, 4, "VP")]
    assert TASK.blind([units(tree), []], [5, 1]) == [guess, [(0, 0, "S")]]
    assert TASK.count(units(tree), guess) == (4, 4)


def all_trees(first, last):
    """The spans of every binary tree."""
    if first == last:
        return [[(first, last)]]
    return [
        [(first, last), *left, *right]
        for middle in range(first, last)
        for left in all_trees(first, middle)
        for right in all_trees(middle + 1, last)
    ]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(0, 999))
def test_no_spans_are_better(lengths, seed):
    scores = np.random.default_rng(seed).normal(size=(len(lengths), max(lengths), max(lengths)))
    for sentence, length, spans in zip(scores, lengths, best_spans(scores, lengths), strict=True):
        trees = all_trees(0, length - 1)
        sums = [sum(sentence[span] for span in tree) for tree in trees]
        assert sorted(spans) == sorted(trees[int(np.argmax(sums))])
        assert spans == sorted(spans, key=lambda span: (span[0], -span[1]))  # each before those in it
