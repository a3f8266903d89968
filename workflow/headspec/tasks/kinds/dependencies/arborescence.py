"""The dependency tree with the highest score (Chu and Liu 1965, Edmonds 1967).

For 20 and 80 words this takes 0.7 and 3 ms; networkx takes 10 and 300 ms, longer than an encoder.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Heads = NDArray[np.int64]


def best_tree(scores: Floats) -> Heads:
    """Return each word's head, from 1, or 0 for the one root, in the tree with the highest sum of scores.

    If the best heads are no tree, arcs from the root are made to cost more than a second one can gain.
    `scores` (words, words + 1) are for the root and each word as head, and finite except for the word itself.
    """
    words = len(scores)
    padded = np.concatenate([np.full((1, words + 1), -np.inf), scores])
    np.fill_diagonal(padded, -np.inf)
    heads = _best(padded)
    if (heads[1:] == 0).sum() == 1 and not len(_cycle(heads)):
        return heads[1:]
    possible = padded[np.isfinite(padded)]
    padded[1:, 0] -= 1 + words * (possible.max() - possible.min())
    return _arborescence(padded)[1:]


def _best(scores: Floats) -> Heads:
    heads = scores.argmax(1)
    heads[0] = 0
    return heads


def _cycle(heads: Heads) -> Heads:
    """Return the nodes of a cycle of heads, or none if all lead to the root 0, which is its own head."""
    above = heads
    for _ in range(len(heads).bit_length()):  # doubling takes as many steps up as there are nodes
        above = above[above]
    cycle = above[above > 0][:1].tolist()
    while cycle and (head := int(heads[cycle[-1]])) != cycle[0]:
        cycle.append(head)
    return np.array(cycle, dtype=np.int64)


def _arborescence(scores: Floats) -> Heads:
    """Return the best head of each node, (nodes,), such that all lead to node 0.

    A cycle of best heads becomes one node, the last; one of its nodes gets a head from outside. `scores`
    (nodes, nodes) are for heads of each node; -inf for itself.
    """
    heads = _best(scores)
    cycle = _cycle(heads)
    if not len(cycle):
        return heads
    rest = np.setdiff1d(np.arange(len(scores)), cycle)
    into = scores[np.ix_(cycle, rest)] - scores[cycle, heads[cycle], None]  # instead of the head in the cycle
    out = scores[np.ix_(rest, cycle)]
    joined = np.full((len(rest) + 1, len(rest) + 1), -np.inf)
    joined[:-1, :-1] = scores[np.ix_(rest, rest)]
    joined[-1, :-1], joined[:-1, -1] = into.max(0), out.max(1)
    joined_heads = _arborescence(joined)
    entry = joined_heads[-1]
    heads[cycle[into[:, entry].argmax()]] = rest[entry]
    heads[rest] = np.append(rest, 0)[joined_heads[:-1]]
    below = joined_heads[:-1] == len(rest)  # words whose head is in the cycle
    heads[rest[below]] = cycle[out[below].argmax(1)]
    return heads
