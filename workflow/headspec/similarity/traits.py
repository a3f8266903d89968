"""The traits of a task, from which every measure of similarity is computed.

Measures are symmetric, at most 1, and 1 for equal traits; `headspec.config.measures.similarity` lists them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]

#: entries of each vector that are multiplied at a time
BLOCK = 1 << 20


class Traits(TypedDict, total=False):
    """What is known of a task; a measure reads one entry. Arrays of compared tasks have the same shape."""

    paradigm: str  #: `single` or `pair`: the number of texts in an example
    text: Floats  #: (hidden,): mean pretrained vector of the training texts
    vectors: Floats  #: (sentences, hidden): from the single-task model
    fisher: Floats  #: (parameters,): diagonal of the empirical Fisher information
    gradient: Floats  #: (parameters,): of the mean loss, at the shared pretrained weights
    head_fisher: Floats  #: (heads,): Fisher information of the gates
    importance: Floats  #: (heads,)
    top: NDArray[np.bool_]  #: (heads,): the most important heads
    encoding: Floats  #: (voxels,): how well the model's vectors of stimuli predict a subject's voxels


def cosine(a: Floats, b: Floats) -> float:
    """Cosine between two arrays of the same shape, as vectors; nan if either is zero."""
    blocks = (np.stack([a.ravel()[i : i + BLOCK], b.ravel()[i : i + BLOCK]]) for i in range(0, a.size, BLOCK))
    return float(cosines(blocks)[0, 1])


def cosines(blocks: Iterable[Floats]) -> NDArray[np.float64]:
    """Cosines between k vectors, (k, k); nan where either is zero.

    Inner products are in double precision, of one block at a time: there may be hundreds of millions of
    entries, and more vectors than fit into memory.

    Parameters
    ----------
    blocks : the vectors' entries one after the other, each block (k, n)
    """
    products = [_inner_products(block) for block in blocks]
    above = [math.fsum(of_pair) for of_pair in zip(*products, strict=True)]  # of the triangle of all pairs
    k = math.isqrt(2 * len(above))
    dots = np.empty((k, k))
    dots[np.triu_indices(k)] = dots.T[np.triu_indices(k)] = above
    squares = np.outer(dots.diagonal(), dots.diagonal())
    return np.divide(dots, np.sqrt(squares), out=np.full_like(dots, np.nan), where=squares > 0)


def _inner_products(vectors: Floats) -> list[float]:
    """Of all pairs of `vectors` (k, n), each with itself as well: the triangle of a matrix, row by row."""
    return [a @ b for a, b in itertools.combinations_with_replacement(vectors.astype(float), 2)]
