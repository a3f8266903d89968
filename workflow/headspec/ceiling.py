"""Which voxels respond alike in several subjects, and how well any model could predict them.

The yardstick is the other subjects: their responses predict a voxel's as a model's vectors would, by
the same ridge, with their voxels as features, so that no voxel need lie at the same place in two
brains (cf. Schrimpf et al. 2021). They are noisy themselves, so a good model may come out above.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from headspec.folds import Split, splits
from headspec.responses import Responses
from headspec.ridge import Ridge
from headspec.seeds import derive
from headspec.voxelwise import shifted

Floats = NDArray[np.floating]

#: false discovery rate of the voxels that count as reliable
RATE = 0.05
#: random shifts of every voxel; those of all voxels together are what its reliability is compared with
SHIFTS = 100
#: voxels of which features are multiplied at a time
BLOCK = 16384


def kernel(responses: Floats, split: Split) -> Floats:
    """Products of the stimuli (N, N) as a subject's standardised voxels (N, voxels) have them, per voxel."""
    total = np.zeros((len(responses), len(responses)))
    rows = np.concatenate([split.train, split.test])
    for start in range(0, responses.shape[1], BLOCK):
        block = np.concatenate(split.standardised(responses[:, start : start + BLOCK]))
        total[np.ix_(rows, rows)] += block @ block.T
    return total / responses.shape[1]


def correlations(features: Floats, split: Split, responses: Floats) -> Floats:
    """As `voxelwise.shifted` (m, voxels), when features with the products (N, N) predict responses."""
    train, test = split.standardised(responses)
    return shifted(Ridge.of_gram(*split.gram(features), split.freedom).predict(train), test)


def reliability(
    features: Floats, inner: Sequence[Split], responses: Floats, rng: np.random.Generator
) -> tuple[Floats, NDArray[np.bool_]]:
    """How well other subjects predict a subject's voxels within a training part, and where they do.

    A voxel is reliable where its mean r over the inner folds is above 0, one-sided, at a false
    discovery rate of `RATE` (Benjamini & Hochberg 1995) among the subject's voxels. What r may be
    by chance is seen from predictions moved in a circle within each fold, which keep their
    autocorrelation, in all voxels together.

    Parameters
    ----------
    features : (N, N)
        Products of the stimuli, from the other subjects.
    inner : splits of the training part
    responses : (N, voxels)
    rng : Generator

    Returns
    -------
    r (voxels,), reliable (voxels,)
    """
    r = np.zeros(responses.shape[1], np.float32)
    null = np.zeros((SHIFTS, len(r)), np.float32)
    for split in inner:
        found = correlations(features, split, responses) / len(inner)
        r += found[0]
        null += found[rng.integers(len(found), size=SHIFTS)]
    everywhere = np.sort(null, axis=None)
    reached = len(everywhere) - np.searchsorted(everywhere, r - 1e-6)
    p = (1 + reached) / (1 + len(everywhere))
    return r, stats.false_discovery_control(p) < RATE


def analyse(
    responses: Mapping[str, Responses],
    passages: Sequence[object],
    nuisance: ArrayLike,
    folds: int,
    only_reliable: bool,
    seed: int,
) -> pd.DataFrame:
    """Reliability, selection and ceiling of every voxel in every fold.

    What a fold holds out has no part in its reliability and selection.

    Parameters
    ----------
    responses : subject: its responses
        With one subject nothing can be compared: reliability and ceiling are nan.
    passages : (N,)
    nuisance : (N, regressors)
    folds : int
        Of cross-validation; one less, but at least two, within a training part.
    only_reliable : bool
        Whether only reliable voxels are selected.
    seed : int

    Returns
    -------
    table 'voxels'
    """
    parts = []
    for fold, split in enumerate(splits(passages, nuisance, folds)):
        inner = splits(passages, nuisance, max(2, folds - 1), split.train)
        several = len(responses) > 1
        kernels = {subject: kernel(each.values, split) for subject, each in responses.items() if several}
        for subject, each in responses.items():
            columns = {"subject": subject, "voxel": each.voxels, "fold": fold}
            r, best = np.full((2, len(each.voxels)), np.nan)
            reliable = np.zeros(len(r), dtype=bool)
            if several:
                features = np.mean([kernels[other] for other in kernels if other != subject], axis=0)
                rng = np.random.default_rng(derive(seed, "reliability", subject, fold))
                r, reliable = reliability(features, inner, each.values, rng)
                best = correlations(features, split, each.values)[0]
            selected = reliable if only_reliable else np.ones(len(r), dtype=bool)
            parts.append(pd.DataFrame(columns | {"reliability": r, "selected": selected, "ceiling": best}))
    return pd.concat(parts, ignore_index=True)
