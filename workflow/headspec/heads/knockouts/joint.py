"""Effects of heads from joint knockouts: passes in which several random heads are closed together.

A pass that closes a few per cent of the heads tells something about each of these. As many passes as there
are heads then give smaller errors than one pass for each head (Bair et al. 2026), if effects nearly add up.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
#: share of heads that a pass closes
SHARE = 0.05
#: prior variances of effects, relative to the noise of their estimates, all as likely as each other
RATIOS = np.geomspace(0.02, 500, 30)


def drawn(
    exists: NDArray[np.bool_], passes: int, rng: np.random.Generator, share: float = SHARE
) -> NDArray[np.bool_]:
    """Return the closed heads of each pass, (passes, layers, heads), spread over layers evenly.

    Passes come in rounds that close every head of `exists` (layers, heads) once; the last may be incomplete.
    """
    places = np.argwhere(exists)
    groups = max(1, round(len(places) / max(1, round(share * len(places)))))
    closed = np.zeros((passes, *exists.shape), dtype=bool)
    for start in range(0, passes, groups):
        order = np.lexsort([rng.random(len(places)), places[:, 0]])  # random within a layer
        for group in range(min(groups, passes - start)):
            closed[start + group][tuple(places[order[group::groups]].T)] = True
    return closed


def fitted(closed: NDArray[np.bool_], rises: Floats) -> tuple[Floats, Floats]:
    """Return the effects of heads on each example, and the standard errors of their means.

    Effects are from ridge regressions towards their mean, averaged over penalties by marginal likelihood.
    Standard errors cover interactions between heads, the noise of passes, the penalties, and the examples.

    Parameters
    ----------
    closed : (passes, heads)
    rises : (passes, n), of the loss of each example

    Returns
    -------
    effects, errors : (n, heads) and (heads,)
    """
    x = closed.astype(float)
    size = x.sum(axis=1, keepdims=True)  # of a pass
    mean = size / np.square(size).sum()
    project = np.eye(len(x)) - size @ mean.T
    u, s, v = np.linalg.svd(project @ x, full_matrices=False)
    kept = s > s[0] * 1e-9 if len(s) else s > 0
    u, s, v = u[:, kept], s[kept], v[kept]
    y = project @ rises.mean(axis=1)
    z, degrees = u.T @ y, len(x) - 1
    rest = max(float(y @ y - z @ z), 0.0)

    ratios = RATIOS[:, None] / np.square(s).mean()
    gains = ratios * s**2 / (1 + ratios * s**2)  # (ratios, directions)
    noise = ((np.square(z) * (1 - gains)).sum(axis=1) + rest) / degrees
    surprise = degrees * np.log(np.maximum(noise, 1e-300)) - np.log1p(-gains).sum(axis=1)
    likely = np.exp((surprise.min() - surprise) / 2)
    likely /= likely.sum()
    gain = likely @ gains
    own = v.T @ ((gain / s)[:, None] * u.T) @ project  # (heads, passes)
    weights = own + mean.T @ (np.eye(len(x)) - x @ own)  # effects are linear in rises
    effects = (weights @ rises).T
    within = (likely * noise) @ (ratios - ratios * (gains @ v**2) + 1 / np.square(size).sum())
    between = likely @ np.square(((gains - gain) / s * z) @ v)
    n = rises.shape[1]
    if n == 1:
        return effects, np.sqrt(within + between)
    residuals = rises - x @ effects.T
    single = residuals.var(axis=1, ddof=1).sum() / max(degrees - gain.sum(), 1)  # of an example in a pass
    of_examples = effects.var(axis=0, ddof=1) - single * np.square(weights).sum(axis=1)
    return effects, np.sqrt(within + between + np.maximum(of_examples, 0) / n)
