"""Dependency trees: what is one, the best one, the blind guess, and attachment scores."""

from itertools import product

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headspec.data.sources.treebank import tree_problem
from headspec.tasks.kinds.words.trees import DEPENDENCIES_TASK as TASK
from headspec.tasks.kinds.words.trees import best_tree
from headspec.tasks.kinds.words.units import gold_counts
from headspec.tasks.metrics import chance, score


def leads_to_root(heads):
    """Whether every word reaches 0 by going up, and one is there after one step."""
    for word in range(1, len(heads) + 1):
        for _ in heads:
            word = heads[word - 1] if word else 0
        if word:
            return False
    return list(heads).count(0) == 1


@given(st.lists(st.integers(0, 12), min_size=1, max_size=12))
def test_a_tree_is_what_leads_to_its_one_root(heads):
    n = len(heads)
    clause = tree_problem(["x"] * n, heads, ["dep"] * n)
    assert (clause is None) == (max(heads) <= n and leads_to_root(heads))


def test_the_root_is_its_own_head():
    units = TASK.units(["x", "y", "z"], "2 0 2", "nsubj:pass root obj")
    assert units == [(0, 1, "nsubj:pass"), (1, 1, "root"), (2, 1, "obj")]
    assert TASK.units(["x", "y", "z"], np.array([2, 0, 2]), np.array(["nsubj:pass", "root", "obj"])) == units


def test_attachment_scores_are_of_all_words():
    """As eval.pl of CoNLL-X counts, punctuation included.

    Two sentences have six words, five right heads and four right relations of these; the means over
    sentences would be 7/8 and 5/8.
    """
    gold = [TASK.units("abcd", "2 0 2 2", "det root obj punct"), TASK.units("ef", "2 0", "nsubj root")]
    predicted = [  # another head of d, and another relation of e
        TASK.units("abcd", "2 0 2 3", "det root obj punct"), TASK.units("ef", "2 0", "obj root"),
    ]  # fmt: skip
    label = gold_counts(TASK, gold, [4, 2])
    prediction = [TASK.count(*pair) for pair in zip(gold, predicted, strict=True)]
    assert score("uas", label, prediction) == pytest.approx(5 / 6)
    assert score("las", label, prediction) == pytest.approx(4 / 6)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.integers(0, 99))
def test_no_other_distance_is_right_more_often(lengths, seed):
    rng = np.random.default_rng(seed)
    sentences = []
    for length in lengths:
        heads = [word if word == 0 else int(rng.integers(word)) for word in range(length)]
        sentences.append([(word, head, "ab"[rng.integers(2)]) for word, head in enumerate(heads)])
    guesses = TASK.blind(sentences, lengths)
    (distance,) = {h - w for g, n in zip(guesses, lengths, strict=True) for w, h, _ in g if h != w} or {0}
    right = {d: sum(head - word == d for units in sentences for word, head, _ in units) for d in range(-6, 7)}
    assert right[distance] == max(right.values()) or max(lengths) <= abs(max(right, key=right.get))
    assert 0 <= chance("las", gold_counts(TASK, sentences, lengths)) <= 1


def test_the_blind_guess_of_chains():
    """Each word's head is the one before; the first has none, and is the root."""
    chain = [(0, 0, "root"), (1, 0, "b"), (2, 1, "c"), (3, 2, "c")]
    assert TASK.blind([chain, []], [4, 2]) == [
        [(0, 0, "root"), (1, 0, "c"), (2, 1, "c"), (3, 2, "c")], [(0, 0, "root"), (1, 0, "c")],
    ]  # fmt: skip
    label = gold_counts(TASK, [chain], [4])
    assert (chance("las", label), chance("uas", label)) == (0.75, 1)


# --- the best tree


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("root", [-3, 0, 3])
def test_no_tree_is_better(n, root):
    """With roots that are unlikely, as likely as others, and likely, so that greedy heads are no tree."""
    rng = np.random.default_rng(n)
    trees = [heads for heads in product(range(n + 1), repeat=n) if leads_to_root(heads)]
    greedy = 0
    for _ in range(6 if n == 5 else 20):
        scores = rng.normal(size=(n, n + 1))
        scores[:, 0] += root
        sums = [scores[range(n), heads].sum() for heads in trees]
        best = best_tree(scores)
        assert tuple(best) == trees[int(np.argmax(sums))]
        alone = np.where(np.eye(n, n + 1, 1), -np.inf, scores).argmax(1)
        greedy += leads_to_root(alone)
    assert n < 3 or greedy < 20


@pytest.mark.parametrize("n", [8, 20, 40])
def test_trees_are_those_of_networkx(n):
    """The best tree with one root is the best arborescence of the words from one of them."""
    scores = np.random.default_rng(n).normal(size=(n, n + 1))
    best = best_tree(scores)
    assert leads_to_root(best)
    (root,) = np.flatnonzero(best == 0)
    graph = nx.DiGraph()
    arcs = [(head, word) for word in range(n) if word != root for head in range(n) if head != word]
    graph.add_weighted_edges_from((head, word, scores[word, head + 1]) for head, word in arcs)
    for head, word in nx.maximum_spanning_arborescence(graph).edges:
        assert best[word] == head + 1
