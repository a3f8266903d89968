"""The dependency tree with the highest score."""

from __future__ import annotations

import networkx as nx
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def best_tree(scores: Floats) -> NDArray[np.int64]:
    """The head of every word, from 1, or 0 for the one root, in the tree with the highest sum of scores.

    The best head of every word, which is the best tree wherever that is one; the maximum spanning
    arborescence otherwise (Edmonds 1967), which takes a hundred times as long. Arcs from the root cost more
    there than any tree can gain by another one, so that there is one of them.

    Parameters
    ----------
    scores : (words, words + 1), finite but for the words themselves: of the root, and of every word, as head
    """
    words = np.arange(1, len(scores) + 1)
    scores = scores.astype(float)
    scores[words - 1, words] = -np.inf
    best = scores.argmax(1)
    if is_tree(best):
        return best
    possible = scores[np.isfinite(scores)]
    scores[:, 0] -= 1 + len(scores) * (possible.max() - possible.min())
    graph = nx.DiGraph()
    graph.add_weighted_edges_from(
        (head, word, scores[word - 1, head])
        for word in words.tolist()
        for head in range(len(scores) + 1)
        if head != word
    )
    for head, word in nx.maximum_spanning_arborescence(graph).edges:
        best[word - 1] = head
    return best


def is_tree(heads: NDArray[np.int64]) -> bool:
    """Whether one word has head 0, and all lead there."""
    above = np.concatenate([[0], heads])
    for _ in range(len(heads).bit_length()):  # as many steps up as there are words, by doubling
        above = above[above]
    return (heads == 0).sum() == 1 and not above.any()
