"""Voxels that are reliable across subjects, and the ceiling for models that predict them.

The other subjects' voxels replace a model's vectors as features of the same ridge regression, so voxels need
not correspond between brains (cf. Schrimpf et al. 2021). These responses are noisy too: a good model may
exceed the ceiling.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from headspec.seeds import derive
from headspec.similarity.brain.folds import Split, inner_folds, products, splits
from headspec.similarity.brain.responses import Responses
from headspec.similarity.brain.ridge import Ridge
from headspec.similarity.brain.scores import correlation, encode
from headspec.tables import FLAG, FLOAT, INT, TEXT, Schema

VOXELS = Schema(
    {"subject": TEXT, "voxel": INT, "fold": INT, "reliability": FLOAT, "selected": FLAG, "ceiling": FLOAT},
    keys=3,
)
"""Table `voxels`: a row for each subject, voxel and fold.
brain/voxels.parquet

fold: fold of cross-validation
reliability: r of the prediction from other subjects, in the training part; null with one
selected: whether the fold uses the voxel
ceiling: the same on the held-out part
"""

Floats = NDArray[np.floating]

#: false discovery rate among the voxels called reliable
FALSE_DISCOVERY_RATE = 0.05
#: circular shifts, and voxels that are shifted at most, for the null distribution of reliability
SHIFTS, SAMPLE = 20, 2000


def reliable(
    ridges: Sequence[Ridge], inner: Sequence[Split], responses: Floats, r: Floats, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """The voxels that the other subjects predict, (voxels,) bool: r above 0 at `FALSE_DISCOVERY_RATE`.

    The null distribution of r comes from circular shifts of `responses` (n, voxels) against the other
    subjects' (see `voxelwise.p_value`), pooled over the subject's voxels or a sample. The false discovery
    rate is over the subject's voxels (Benjamini & Hochberg 1995). `ridges` are from the other subjects, one
    for each inner fold; `r` (voxels,) is the mean over these folds.
    """
    n = len(responses)
    sample = responses[:, rng.permutation(len(r))[:SAMPLE]]
    shifts = rng.choice(np.arange(1, n), min(SHIFTS, n - 1), replace=False)
    null = np.sort([_mean_r(ridges, inner, np.roll(sample, shift, axis=0)) for shift in shifts], axis=None)
    reached = len(null) - np.searchsorted(null, r - 1e-6)  # ties count, whatever the rounding
    return stats.false_discovery_control((1 + reached) / (1 + len(null))) < FALSE_DISCOVERY_RATE


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
    """Return the table `voxels`: reliability, selection and ceiling of every voxel in every fold.

    The held-out part of a fold has no influence on its reliability and selection; with only one subject,
    reliability and ceiling are nan. `passages` are (N,), `nuisance` (N, regressors). Of outer `folds` a
    training part has one fewer, but at least two.
    """
    frames = []
    regressors = np.asarray(nuisance, dtype=float)
    comparable = len(responses) > 1
    for fold, split in enumerate(splits(passages, regressors, folds)):
        inner = splits([passages[i] for i in split.train], regressors[split.train], inner_folds(folds))
        grams = {subject: products(each.values, split) for subject, each in responses.items() if comparable}
        for subject, measured in responses.items():
            r, ceiling = np.full((2, len(measured.voxels)), np.nan)
            selected = np.ones(len(r), dtype=bool)
            if comparable:
                others = np.mean([grams[other] for other in grams if other != subject], axis=0)
                train, test = split.standardised(measured.values)
                ceiling = correlation(_ridge(others, split).predict(train), test)
                ridges = [_ridge(others[np.ix_(split.train, split.train)], part) for part in inner]
                r = _mean_r(ridges, inner, train)
                if only_reliable:
                    rng = np.random.default_rng(derive(seed, "reliable voxels", subject, fold))
                    selected = reliable(ridges, inner, train, r, rng)
            row = {"subject": subject, "voxel": measured.voxels, "fold": fold}
            frames.append(pd.DataFrame(row | {"reliability": r, "selected": selected, "ceiling": ceiling}))
    return pd.concat(frames, ignore_index=True)


def _ridge(gram: Floats, split: Split) -> Ridge:
    """Ridge from the Gram matrix of its features, (stimuli, stimuli)."""
    return Ridge.from_gram(*split.gram(gram), split.freedom)
