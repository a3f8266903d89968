"""The traits of a task, from which every measure of similarity is computed.

Measures are symmetric, at most 1, and 1 for equal traits; `measures` lists them.
"""

from __future__ import annotations

import math
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]


class Traits(TypedDict, total=False):
    """What is known of a task; a measure reads one entry. Arrays of compared tasks have the same shape."""

    paradigm: str  #: `single` or `pair`: the number of texts in an example
    text: Floats  #: (hidden,): mean pretrained vector of the training texts
    vectors: Floats  #: (sentences, hidden): from the single-task model
    fisher: Floats  #: (parameters,): diagonal of the empirical Fisher information
    gradient: Floats  #: (parameters,): of the mean loss, at the shared pretrained weights
    head_fisher: Floats  #: (layers, heads): Fisher information of the gates
    importance: Floats  #: (layers, heads)
    top: NDArray[np.bool_]  #: (layers, heads): the most important heads
    encoding: Floats  #: (voxels,): how well the model's vectors of stimuli predict a subject's voxels


def cosine(a: Floats, b: Floats) -> float:
    """Cosine between two arrays of the same shape, as vectors; nan if either is zero."""
    squares = _dot(a, a) * _dot(b, b)
    return _dot(a, b) / math.sqrt(squares) if squares > 0 else math.nan


def _dot(a: Floats, b: Floats, block: int = 1 << 20) -> float:
    """Inner product in double precision, in blocks: there may be hundreds of millions of entries."""
    a, b = a.ravel(), b.ravel()
    starts = range(0, a.size, block)
    return math.fsum(a[i : i + block].astype(float) @ b[i : i + block].astype(float) for i in starts)
