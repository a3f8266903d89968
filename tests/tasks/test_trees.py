"""The best dependency tree and the best constituents, compared with all there are."""

from itertools import product

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headspec.tasks.constituents.cky import best_spans
from headspec.tasks.dependencies.arborescence import best_tree


def leads_to_root(heads):
    """Whether every word reaches 0 by going up, and one is there after one step."""
    for word in range(1, len(heads) + 1):
        for _ in heads:
            word = heads[word - 1] if word else 0
        if word:
            return False
    return list(heads).count(0) == 1


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
