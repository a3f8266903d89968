"""Linear heads on fixed vectors: logistic regression, or ridge for scores, as scikit-learn has them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, Ridge

Floats = NDArray[np.float64]


def predictions(train: Floats, labels: Floats, test: Floats, scores: bool, penalty: float) -> Floats:
    """What a head that is fitted to a few vectors says of others.

    It minimises the sum of the samples' losses plus penalty / 2 times the squared weights, without the
    intercept. The vectors are centred and divided by one number, so that their mean variance over
    dimensions is 1: neither place nor scale of an encoder's vectors changes what the penalty means.

    Parameters
    ----------
    train : (n, d)
    labels : (n,)
        Class indices, or scores.
    test : (m, d)
    scores : whether it is regression, whose loss is half the squared error

    Returns
    -------
    (m,) class indices, or scores
    """
    centre = train.mean(axis=0)
    scale = np.sqrt(((train - centre) ** 2).mean()) or 1.0  # 0 where all vectors are the same
    head = Ridge(alpha=penalty) if scores else LogisticRegression(C=1 / penalty, tol=1e-8, max_iter=5000)
    return head.fit((train - centre) / scale, labels).predict((test - centre) / scale)
