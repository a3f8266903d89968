"""RSA: whether two models find the same sentences alike."""

import numpy as np

from headspec.metrics import score
from headspec.similarity import Traits


def rsa(a: Traits, b: Traits) -> float:
    """Spearman of the models' dissimilarities of all pairs of sentences of the probe (CRA; Luo et al. 2022).

    Dissimilarity is 1 - Pearson of two sentences' vectors, over their entries. Unchanged when a
    model scales or shifts the vector of any sentence, reorders its entries, or turns them about
    the direction of equal entries.
    """
    x, y = (1 - np.asarray(np.corrcoef(vectors)) for vectors in (a["vectors"], b["vectors"]))
    pairs = np.triu_indices(len(x), k=1)
    return score("spearman", x[pairs], y[pairs])
