"""DSE: how similarly two models represent each sentence."""

import numpy as np

from headspec.similarity.traits import Traits


def dse(a: Traits, b: Traits) -> float:
    """Mean over sentences of the cosine between the two models' vectors of a sentence.

    Invariant to scaling either model's vectors and to rotating both alike. Coordinates are compared one by
    one, and they correspond only between models fine-tuned from the same pretrained encoder.
    """
    x, y = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (a["vectors"], b["vectors"]))
    return float((x * y).sum(axis=1).mean())
