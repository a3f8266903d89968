"""Ridge regression of gains, with one or two tasks held out.

Gains and features are vectors over the k (k - 1) directed pairs (source, target), sorted by source. For every
set of held-out tasks, a model is fitted to the pairs without them, and at the same time to those with
relabelled features.
"""

import itertools

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Indices = NDArray[np.intp]

#: candidate penalties, in units of the variance of a feature
PENALTIES = np.logspace(-2, 3, 11)
#: variance of a feature, relative to its square, up to which it counts as rounding error
ROUNDING = 1e-18
#: numbers in memory at a time
CHUNK = 2**21


def directed_pairs(k: int) -> tuple[Indices, Indices]:
    """Return sources and targets of all directed pairs of k tasks, (k (k - 1),) each."""
    source, target = np.nonzero(~np.eye(k, dtype=bool))
    return source, target


def _base(k: int, effects: bool) -> Floats:
    """Return unpenalised columns (pairs, q): the intercept and, with `effects`, sources and targets."""
    source, target = directed_pairs(k)
    ones = np.ones((len(source), 1))
    return np.hstack([ones, np.eye(k)[source], np.eye(k)[target]]) if effects else ones


def _fits(base: Floats, train: Flags) -> Floats:
    """Return matrices (sets, q, pairs) that turn values into least-squares coefficients of `base`.

    A set is fitted to its pairs in `train`, bool (sets, pairs). Effects of sources sum to 0 over training
    sources, and effects of targets over training targets. Other tasks have the effect 0.
    """
    weighted = base * train[..., None]
    normal = base.T @ weighted  # (sets, q, q)
    k = (base.shape[1] - 1) // 2
    for columns in (slice(1, 1 + k), slice(1 + k, None)):
        seen = np.zeros(normal.shape[:2])
        seen[:, columns] = np.diagonal(normal, axis1=1, axis2=2)[:, columns] > 0
        normal = normal + seen[:, :, None] * seen[:, None]
    return np.linalg.pinv(normal, hermitian=True) @ weighted.transpose(0, 2, 1)


def standardised(features: Floats, effects: bool) -> Floats:
    """Return features (p, pairs) with mean 0 and variance 1; with `effects`, also without effects of tasks.

    A feature that is constant, or consists of effects only, is nan, as is one with any nan.
    """
    pairs = features.shape[1]
    k = round((1 + np.sqrt(1 + 4 * pairs)) / 2)
    base = _base(k, effects)
    rest = features - features @ _fits(base, np.ones((1, pairs), dtype=bool))[0].T @ base.T
    variance = (rest**2).mean(axis=1, keepdims=True)
    enough = variance > ROUNDING * (features**2).mean(axis=1, keepdims=True)
    scaled: Floats = np.divide(rest, np.sqrt(variance), out=np.full_like(rest, np.nan), where=enough)
    return scaled


class LeaveTasksOut:
    """Regressions of gains of k tasks, each without the tasks of a fold.

    Parameters
    ----------
    gains : (pairs,), nan where unknown
    k : number of tasks
    held_out : number of tasks of a fold, 1 or 2
    effects : whether sources and targets have effects, besides the features

    Attributes
    ----------
    pairs : (folds, r), pairs that a fold predicts: with one task, its gains from the others, then theirs from
        it; with two, their gains from each other
    base : (folds, r), predictions without features
    """

    def __init__(self, gains: Floats, k: int, held_out: int, effects: bool) -> None:
        source, target = directed_pairs(k)
        known = ~np.isnan(gains)
        gains = np.where(known, gains, 0.0)
        folds = list(itertools.combinations(range(k), held_out))
        sets = [*folds, *itertools.combinations(range(k), held_out + 1)]
        out = np.array([np.isin(np.arange(k), tasks) for tasks in sets])
        self.train = ~out[:, source] & ~out[:, target] & known  # (sets, pairs)
        self.columns = _base(k, effects)
        self.fits = _fits(self.columns, self.train)  # (sets, q, pairs)
        self.rest = gains - (self.fits @ gains) @ self.columns.T  # (sets, pairs)
        every = np.arange(len(source))
        if held_out == 1:
            self.pairs = np.array([[*every[target == task], *every[source == task]] for (task,) in folds])
        else:
            self.pairs = np.array(
                [every[out[fold, source] & out[fold, target]] for fold in range(len(folds))]
            )
        self.base = np.take_along_axis(gains - self.rest[: len(folds)], self.pairs, axis=1)
        # the penalty of a fold is chosen on the pairs of a further held-out task
        number = {tasks: position for position, tasks in enumerate(sets)}
        further = [[task for task in range(k) if task not in fold] for fold in folds]
        self.inner = np.array(
            [
                [number[tuple(sorted((*fold, task)))] for task in tasks]
                for fold, tasks in zip(folds, further, strict=True)
            ]
        )  # (folds, k - held_out)
        trained = ~out[: len(folds), source] & ~out[: len(folds), target]
        self.inner_pairs = np.array(
            [
                [every[trained[fold] & ((source == task) | (target == task))] for task in tasks]
                for fold, tasks in enumerate(further)
            ]
        )  # (folds, k - held_out, m)
        self.counted = known[self.inner_pairs]

    def changes(self, features: Floats, relabelled: Indices) -> tuple[Floats, Floats]:
        """Return what features add to the predictions, under every relabelling of their tasks.

        Parameters
        ----------
        features : (p, pairs), from `standardised`
        relabelled : (n, pairs)

        Returns
        -------
        each : (p, n, folds, r), by each feature alone
        together : (n, folds, r), by all of them
        """
        block = max(1, CHUNK // (self.counted.size * len(features)))
        starts = range(0, len(relabelled), block)
        blocks = [self._changes(features.T[relabelled[start : start + block]]) for start in starts]
        each, together = zip(*blocks, strict=True)
        return np.concatenate(each, axis=1), np.concatenate(together)

    def _changes(self, features: Floats) -> tuple[Floats, Floats]:
        """Return `changes` for relabelled features (n, pairs, p)."""
        n, pairs, p = features.shape
        sets, q = self.fits.shape[:2]
        number = np.maximum(self.train.sum(axis=1), 1)[:, None]
        # residuals are computed where needed: those of all sets and pairs would grow with k to the fifth
        fits = (self.fits.reshape(-1, pairs) @ features).reshape(n, sets, q, p)
        squared = (features[..., None] * features[..., None, :]).reshape(n, pairs, -1)
        gram = (self.train.astype(float) @ squared).reshape(n, sets, p, p)
        gram = (gram - self._trained_columns(features).swapaxes(-1, -2) @ fits) / number[..., None]
        cross = (self.train * self.rest) @ features / number  # (n, sets, p)

        inner = self._residuals(features, fits, self.inner[..., None], self.inner_pairs)
        inner *= self.counted[..., None]  # (n, folds, ., m, p)
        error = self.rest[self.inner[..., None], self.inner_pairs]
        squares = inner.swapaxes(-1, -2) @ inner  # (n, folds, ., p, p)
        products = np.einsum("nfvmp,fvm->nfvp", inner, error)
        fold = np.arange(len(self.pairs))[:, None]
        left_out = self._residuals(features, fits, fold, self.pairs)  # (n, folds, r, p)

        variance = np.diagonal(gram, axis1=-2, axis2=-1)
        weights = cross[..., None] / (variance[..., None] + PENALTIES)  # (n, sets, p, penalties)
        inside = weights[:, self.inner]
        square = np.diagonal(squares, axis1=-2, axis2=-1)[..., None]
        loss = (inside * (square * inside - 2 * products[..., None])).sum(axis=2)
        each = left_out * _best(weights[:, : len(fold)], loss)[:, :, None]

        values, basis = np.linalg.eigh(gram)
        turned = (basis.swapaxes(-1, -2) @ cross[..., None]) / (values[..., None] + PENALTIES)
        weights = basis @ turned
        inside = weights[:, self.inner]
        loss = (inside * (squares @ inside - 2 * products[..., None])).sum(axis=(2, 3))
        best = _best(weights[:, : len(fold)], loss[:, :, None])
        return each.transpose(3, 0, 1, 2), (left_out @ best[..., None])[..., 0]

    def _residuals(self, features: Floats, fits: Floats, sets: Indices, pairs: Indices) -> Floats:
        """Return residuals (n, ..., p) of `pairs` (...) by the fits (n, sets, q, p) of their `sets`."""
        return features[:, pairs] - self.columns[pairs] @ fits[:, sets[..., 0]]

    def _trained_columns(self, features: Floats) -> Floats:
        """Return sums (n, sets, q, p) of columns times features (n, pairs, p) over the pairs of each set."""
        return np.stack([(self.train * column) @ features for column in self.columns.T], axis=2)


def _best(weights: Floats, loss: Floats) -> Floats:
    """Return weights (n, folds, p) at the penalty with the lowest loss, the largest such penalty.

    `weights` is (n, folds, p, penalties), `loss` (n, folds, p or 1, penalties).
    """
    last = len(PENALTIES) - 1
    chosen = last - loss[..., ::-1].argmin(axis=-1, keepdims=True)
    return np.take_along_axis(weights, np.broadcast_to(chosen, (*weights.shape[:-1], 1)), axis=-1)[..., 0]
