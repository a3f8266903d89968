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

from headspec.brain.folds import Split, inner_folds, products, splits
from headspec.brain.responses import Responses
from headspec.brain.ridge import Ridge
from headspec.brain.scores import correlation, encode
from headspec.seeds import derive
from headspec.tables import FLAG, FLOAT, INT, TEXT, Schema

# reliability: r of the prediction from the other subjects' responses, within the training part of the
# fold; ceiling: the same on its held-out part; both null where there is one subject
VOXELS = Schema(
    {"subject": TEXT, "voxel": INT, "fold": INT, "reliability": FLOAT, "selected": FLAG, "ceiling": FLOAT},
    keys=3,
)

Floats = NDArray[np.floating]

#: false discovery rate of the voxels that count as reliable
RATE = 0.05
#: circular shifts of at most so many voxels, which together are what reliability is compared with
SHIFTS, SAMPLE = 20, 2000


def reliable(
    ridges: Sequence[Ridge],
    inner: Sequence[Split],
    responses: Floats,
    r: Floats,
    rng: np.random.Generator,
) -> NDArray[np.bool_]:
    """The voxels that other subjects predict: r above 0, one-sided, at the false discovery rate `RATE`.

    What r may be by chance is seen from responses that are moved in a circle against those of the
    other subjects (see `voxelwise.p_value`), of all or a sample of the subject's voxels together.
    The rate is that of Benjamini & Hochberg (1995) among the subject's voxels.

    Parameters
    ----------
    ridges : from the other subjects, one for each of `inner`
    inner : folds of the n stimuli
    responses : (n, voxels)
    r : (voxels,)
        Their mean over folds.
    rng : Generator

    Returns
    -------
    (voxels,)
    """
    n = len(responses)
    some = responses[:, rng.permutation(len(r))[:SAMPLE]]
    shifts = rng.choice(np.arange(1, n), min(SHIFTS, n - 1), replace=False)
    null = np.sort([_mean_r(ridges, inner, np.roll(some, shift, axis=0)) for shift in shifts], axis=None)
    reached = len(null) - np.searchsorted(null, r - 1e-6)  # equal but for rounding counts
    return stats.false_discovery_control((1 + reached) / (1 + len(null))) < RATE


def _mean_r(ridges: Sequence[Ridge], inner: Sequence[Split], responses: Floats) -> Floats:
    return encode([ridges], inner, responses, np.ones((len(inner), responses.shape[1]), dtype=bool))[0]


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
    regressors = np.asarray(nuisance, dtype=float)
    several = len(responses) > 1
    for fold, split in enumerate(splits(passages, regressors, folds)):
        inner = splits([passages[i] for i in split.train], regressors[split.train], inner_folds(folds))
        related = {subject: products(each.values, split) for subject, each in responses.items() if several}
        for subject, each in responses.items():
            r, best = np.full((2, len(each.voxels)), np.nan)
            selected = np.ones(len(r), dtype=bool)
            if several:
                features = np.mean([related[other] for other in related if other != subject], axis=0)
                train, test = split.standardised(each.values)
                best = correlation(_ridge(features, split).predict(train), test)
                ridges = [_ridge(features[np.ix_(split.train, split.train)], part) for part in inner]
                r = _mean_r(ridges, inner, train)
                if only_reliable:
                    rng = np.random.default_rng(derive(seed, "reliable voxels", subject, fold))
                    selected = reliable(ridges, inner, train, r, rng)
            row = {"subject": subject, "voxel": each.voxels, "fold": fold}
            parts.append(pd.DataFrame(row | {"reliability": r, "selected": selected, "ceiling": best}))
    return pd.concat(parts, ignore_index=True)


def _ridge(features: Floats, split: Split) -> Ridge:
    """Ridge from features with the products (stimuli, stimuli)."""
    return Ridge.of_gram(*split.gram(features), split.freedom)
