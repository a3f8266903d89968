"""Linear heads on fixed vectors, solved to convergence: logistic regression, or ridge for scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax

Floats = NDArray[np.float64]


def predictions(train: Floats, labels: Floats, test: Floats, classes: int | None, penalty: float) -> Floats:
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
    classes : their number; None for scores, whose loss is half the squared error (ridge)

    Returns
    -------
    (m,) class indices, or scores
    """
    centre = train.mean(axis=0)
    scale = np.sqrt(((train - centre) ** 2).mean()) or 1.0  # 0 where all vectors are the same
    train, test = (train - centre) / scale, (test - centre) / scale
    if classes is None:
        mean = labels.mean()
        dual = np.linalg.solve(train @ train.T + penalty * np.eye(len(train)), labels - mean)
        return mean + test @ (train.T @ dual)
    weights, intercept = _logistic(train, np.eye(classes)[labels.astype(int)], penalty)
    return (test @ weights + intercept).argmax(axis=1).astype(float)


def _logistic(features: Floats, targets: Floats, penalty: float) -> tuple[Floats, Floats]:
    """Weights (d, classes) and intercept (classes,) of multinomial logistic regression, by L-BFGS."""
    shape = features.shape[1] + 1, targets.shape[1]

    def loss(flat: Floats) -> tuple[float, Floats]:
        weights, intercept = np.split(flat.reshape(shape), [-1])
        logs = log_softmax(features @ weights + intercept, axis=1)
        error = np.exp(logs) - targets  # (n, classes)
        gradient = np.vstack([features.T @ error + penalty * weights, error.sum(axis=0)])
        return -(targets * logs).sum() + penalty / 2 * (weights**2).sum(), gradient.ravel()

    options = {"maxiter": 1000, "gtol": 1e-6}
    found = minimize(loss, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", options=options)
    weights, intercept = np.split(found.x.reshape(shape), [-1])
    return weights, intercept[0]
