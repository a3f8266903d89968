"""DSE: how alike two models represent the same sentences, sentence by sentence."""

import numpy as np

from headspec.similarity import Traits


def dse(a: Traits, b: Traits) -> float:
    """Mean over the probe of the cosine of the two models' vectors of a sentence (DSE).

    Unchanged when either model scales its vectors, or when both turn theirs alike. It compares
    coordinates, which have the same meaning only in models tuned from one pretrained encoder.
    """
    x, y = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (a["vectors"], b["vectors"]))
    return float((x * y).sum(axis=1).mean())
