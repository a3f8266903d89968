"""How well vectors of stimuli predict brain responses to them, voxel by voxel (Luo et al. 2022)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import fft

from headspec.brain.folds import Split, products, whole
from headspec.brain.network import Network
from headspec.brain.responses import Responses
from headspec.brain.ridge import Ridge
from headspec.brain.scores import Regression, encode
from headspec.seeds import derive
from headspec.tables import FLOAT, INT, TEXT, Schema

# r: mean over the folds in which the voxel is selected, and their number
ENCODING = Schema(
    {"task": TEXT, "subject": TEXT, "voxel": INT, "r": FLOAT, "ceiling": FLOAT, "n_folds": INT}, keys=3
)
# r, ceiling: means over voxels; p_value: whether ridge with one penalty predicts the voxels at all,
# against circular shifts of the stimuli, whatever the regression of r
ENCODING_SUMMARY = Schema(
    {"task": TEXT, "subject": TEXT, "n_voxels": INT, "r": FLOAT, "ceiling": FLOAT, "p_value": FLOAT}, keys=2
)

Floats = NDArray[np.floating]


def ridge(vectors: Floats, split: Split, seed: int) -> Ridge:
    """Ridge from vectors (N, d) of all stimuli; nothing in it is random."""
    return Ridge.of_features(*split.standardised(vectors), split.freedom)


def network(vectors: Floats, split: Split, seed: int) -> Network:
    """A network from vectors (N, d) of all stimuli."""
    return Network(*split.standardised(vectors), seed)


#: `brain.regression` of the config: how vectors of all stimuli become a regression
REGRESSIONS: dict[str, Callable[[Floats, Split, int], Regression]] = {"ridge": ridge, "network": network}


def p_value(ridges: Sequence[Ridge], splits: Sequence[Split], products: Floats) -> float:
    """Whether held-out responses are predicted at all: against every circular shift of the vectors.

    Tested is the covariance of predicted and measured responses, summed over folds and voxels, with
    one penalty for all voxels: then it is a sum over pairs of stimuli, and vectors that are moved on
    by 1, 2, ... stimuli over all folds, as if other stimuli had been presented, need no new fit. The
    shifts keep the autocorrelation of vectors and responses. Shifts of predictions within a fold
    would not do: every two folds predict each other, which makes their scores alike, and the first
    stimuli of a fold resemble the last of the one before.

    Parameters
    ----------
    ridges : one for each split
    splits : folds
    products : (stimuli, stimuli)
        Products of the responses, without nuisance.

    Returns
    -------
    float
        One-sided, (1 + times that the sum is reached) / (1 + shifts): at least 1 / stimuli.
    """
    weights = np.zeros_like(products)
    for ridge, split in zip(ridges, splits, strict=True):
        part = ridge.weights(products[np.ix_(split.train, split.train)])
        part -= part.mean(axis=0)
        weights[np.ix_(split.test, split.train)] = part / max(np.linalg.norm(part), np.finfo(float).tiny)
    sums = shifted_sums(weights, products)
    reached = sums[1:] >= sums[0] - 1e-9 * np.abs(sums).max()  # equal but for rounding counts
    return float((1 + reached.sum()) / len(sums))


def shifted_sums(a: Floats, b: Floats) -> Floats:
    """Sum over i and j of a[i, j] b[i + s, j + s] for s = 0, 1, ..., all indices in a circle (n,)."""
    index = np.arange(len(a))
    spectra = [fft.rfft(each[index[:, None], (index[:, None] + index) % len(a)], axis=0) for each in (a, b)]
    return fft.irfft((spectra[0].conj() * spectra[1]).sum(axis=1), n=len(a))


def analyse(
    vectors: Mapping[str, Floats],
    responses: Mapping[str, Responses],
    voxels: pd.DataFrame,
    splits: Sequence[Split],
    regression: str,
    seed: int,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Encoding of all subjects by the vectors of all tasks.

    Parameters
    ----------
    vectors : task: (stimuli, d)
    responses : subject: its responses
    voxels : table 'voxels'
    splits : folds
    regression : one of `REGRESSIONS`
    seed : int

    Returns
    -------
    tables 'encoding', of voxels that are selected in some fold, and 'encoding_summary'
        The p-value is that of `p_value`: of ridge also where the scores are of another regression, and of the
        voxels selected in some fold, in all folds. Vectors have no part in the selection, so it is valid.
    """
    build = REGRESSIONS[regression]
    ridges = [[ridge(each, split, seed) for split in splits] for each in vectors.values()]
    regressions = [
        [build(each, split, derive(seed, "fold", fold)) for fold, split in enumerate(splits)]
        for each in vectors.values()  # whose networks begin alike
    ]
    scores, summary = [], []
    for subject, measured in responses.items():
        own = voxels[voxels["subject"] == subject]
        selected, ceiling = (
            own.pivot(index="fold", columns="voxel", values=column)[measured.voxels].to_numpy()
            for column in ("selected", "ceiling")
        )
        used = selected.any(axis=0)
        folds = selected.sum(axis=0)[used]
        best = np.where(selected, ceiling, 0).sum(axis=0)[used] / folds
        related = products(measured.values[:, used], whole(splits[0].design))
        r = encode(regressions, splits, measured.values, selected)[:, used]
        for task, own_r, own_ridges in zip(vectors, r, ridges, strict=True):
            row = {"task": task, "subject": subject}
            columns = {"voxel": measured.voxels[used], "r": own_r, "ceiling": best, "n_folds": folds}
            scores.append(pd.DataFrame(row | columns))
            numbers = [np.nan] * 3
            if used.any():
                numbers = [own_r.mean(), best.mean(), p_value(own_ridges, splits, related)]
            summary.append((task, subject, used.sum(), *numbers))
    names = ["task", "subject", "n_voxels", "r", "ceiling", "p_value"]
    return pd.concat(scores, ignore_index=True), pd.DataFrame(summary, columns=names)
