"""How alike two tasks are: one measure a module, each a function of what is known of the two tasks.

Every measure is symmetric, and most to two tasks whose traits are equal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]


@dataclass(frozen=True)
class Traits:
    """What measures compare of a task; a measure reads one of these, and needs no other.

    Of two tasks, arrays of the same name have the same shape.
    """

    paradigm: str | None = None  #: `single` or `pair`: texts in an example
    text: Floats | None = None  #: (hidden,): mean pretrained vector of training texts
    vectors: Floats | None = None  #: (sentences, hidden): of the probe, by the task's own model
    fisher: Floats | None = None  #: (parameters,): diagonal of the empirical Fisher information
    gradient: Floats | None = None  #: (parameters,): of the mean loss, at a point the tasks share
    head_fisher: Floats | None = None  #: (layers, heads): Fisher information of the gates
    importance: Floats | None = None  #: (layers, heads)
    top: NDArray[np.bool_] | None = None  #: (layers, heads): the most important heads
    encoding: Floats | None = None  #: (voxels,): how well vectors of stimuli predict responses


def cosine(a: Floats, b: Floats) -> float:
    """Cosine of two arrays as vectors; nan where one is zero."""
    a, b = np.ravel(a).astype(np.float64), np.ravel(b).astype(np.float64)
    norm = np.linalg.norm(a) * np.linalg.norm(b)
    return float(a @ b / norm) if norm > 0 else float("nan")
