"""Linear probes on fixed vectors: scikit-learn's logistic regression, or ridge regression for scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def predictions(train: Floats, labels: Floats, test: Floats, scores: bool, penalty: float) -> Floats:
    """Fit a probe to `train` (n, d), and predict class indices or scores, (m,), for `test` (m, d).

    The fit minimises the sum of the samples' losses plus penalty / 2 times the squared norm of the weights,
    without the intercept. Vectors are centred and scaled to a mean variance of 1 over dimensions, so that the
    penalty means the same for every encoder. For `scores`, the loss is half the squared error.
    """
    from sklearn.linear_model import LogisticRegression, Ridge  # slow to import, and only needed here

    centre = train.mean(axis=0)
    scale = np.sqrt(((train - centre) ** 2).mean()) or 1.0  # 0 if all vectors are the same
    probe = Ridge(alpha=penalty) if scores else LogisticRegression(C=1 / penalty, tol=1e-8, max_iter=5000)
    return probe.fit((train - centre) / scale, labels).predict((test - centre) / scale)
