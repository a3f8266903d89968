"""How alike two tasks are: one family of measures a module, all functions of the two tasks' traits.

Every measure is symmetric, at most 1, and 1 for two tasks with the same traits. `measures` names them.
"""

from __future__ import annotations

import math
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]


class Traits(TypedDict, total=False):
    """What measures compare of a task; each reads one of them. Of two tasks, arrays have the same shape."""

    paradigm: str  #: `single` or `pair`: texts in an example
    text: Floats  #: (hidden,): mean pretrained vector of training texts
    vectors: Floats  #: (sentences, hidden): of the probe, by the task's own model
    fisher: Floats  #: (parameters,): diagonal of the empirical Fisher information
    gradient: Floats  #: (parameters,): of the mean loss, at weights that the tasks share
    head_fisher: Floats  #: (layers, heads): Fisher information of the gates
    importance: Floats  #: (layers, heads)
    top: NDArray[np.bool_]  #: (layers, heads): the most important heads
    encoding: Floats  #: (voxels,): how well the vectors of stimuli predict a subject's responses


def cosine(a: Floats, b: Floats) -> float:
    """Cosine of two arrays of one shape, as vectors; nan where one is zero."""
    squares = _dot(a, a) * _dot(b, b)
    return _dot(a, b) / math.sqrt(squares) if squares > 0 else math.nan


def _dot(a: Floats, b: Floats, block: int = 1 << 20) -> float:
    """Inner product in double precision, in blocks, since there may be hundreds of millions of entries."""
    a, b = a.ravel(), b.ravel()
    starts = range(0, a.size, block)
    return math.fsum(a[i : i + block].astype(float) @ b[i : i + block].astype(float) for i in starts)
