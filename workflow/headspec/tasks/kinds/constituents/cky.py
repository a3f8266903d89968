"""The binary tree with the highest sum of span scores (Stern, Andreas and Klein 2017)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def best_spans(scores: Floats, lengths: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Return (first, last) of the spans of the best binary tree of each sentence, parents first.

    `scores` are (sentences, words, words) by first and last word.
    """
    sentences, words = scores.shape[:2]
    # best sum of the spans in a span, by its first and its last word, and number of words after or before it
    by_first, by_last = (np.zeros((sentences, words, words)) for _ in range(2))
    splits = np.zeros((sentences, words, words), dtype=np.int64)
    for more in range(words):  # words after the first
        n = words - more
        best = scores[:, np.arange(n), np.arange(more, words)]  # (sentences, spans)
        if more:
            sums = by_first[:, :n, :more] + by_last[:, more:, more - 1 :: -1][..., :more]
            split = sums.argmax(-1)  # words of the first part, after its first
            best = best + np.take_along_axis(sums, split[..., None], -1)[..., 0]
            splits[:, :n, more] = split
        by_first[:, :n, more] = by_last[:, more:, more] = best
    return [_spans(split, length) for split, length in zip(splits.tolist(), lengths, strict=True)]


def _spans(splits: list[list[int]], length: int) -> list[tuple[int, int]]:
    found, left = [], [(0, length - 1)]
    while left:
        first, last = left.pop()
        found.append((first, last))
        if first < last:
            middle = first + splits[first][last - first]
            left += [(middle + 1, last), (first, middle)]
    return found
