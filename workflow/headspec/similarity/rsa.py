"""RSA: whether two models agree on which sentences are alike."""

import numpy as np

from headspec.similarity.traits import Traits
from headspec.tasks.metrics import score
from headspec.tasks.regression.metrics import SPEARMAN


def rsa(a: Traits, b: Traits) -> float:
    """Spearman correlation of the models' dissimilarities over all pairs of sentences (CRA; Luo et al. 2022).

    Dissimilarity is 1 minus the Pearson correlation between the entries of two sentences' vectors. Invariant
    to scaling or shifting a model's vector of any sentence, to reordering the entries of all its vectors, and
    to rotating them about the direction of equal entries.
    """
    x, y = (1 - np.asarray(np.corrcoef(vectors)) for vectors in (a["vectors"], b["vectors"]))
    pairs = np.triu_indices(len(x), k=1)
    return score(SPEARMAN, x[pairs], y[pairs])
