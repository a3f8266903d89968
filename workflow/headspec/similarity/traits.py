"""The traits of a task that measures of similarity compare."""

from __future__ import annotations

from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]


class Traits(TypedDict, total=False):
    """What is known of a task; a measure reads one entry. Arrays of compared tasks have the same shape."""

    paradigm: str  #: `single` or `pair`: the number of texts in an example
    text: Floats  #: (hidden,): mean pretrained vector of the training texts
    vectors: Floats  #: (sentences, hidden): from the single-task model
    head_fisher: Floats  #: (heads,): Fisher information of the gates
    importance: Floats  #: (heads,)
    top: NDArray[np.bool_]  #: (heads,): the most important heads
    encoding: Floats  #: (voxels,): how well the model's vectors of stimuli predict a subject's voxels
