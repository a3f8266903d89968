"""Brain encoding (Luo et al. 2022): reliable voxels, and prediction of their responses from vectors.

For the ceiling, the other subjects' voxels replace a model's vectors as features of the same ridge
regression, so voxels need not correspond between brains (cf. Schrimpf et al. 2021). These responses are noisy
too: a good model may exceed the ceiling.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import fft

from headspec.seeds import derive
from headspec.similarity.brain.folds import Split, inner_folds, products, splits, train_on_all
from headspec.similarity.brain.regression import Network, Regression, Ridge, correlation, encode
from headspec.similarity.brain.responses import Responses
from headspec.tables import FLAG, FLOAT, INT, TEXT, Schema

VOXELS = Schema(
    {"subject": TEXT, "voxel": INT, "fold": INT, "reliability": FLOAT, "selected": FLAG, "ceiling": FLOAT},
    keys=3,
    paths=("brain/voxels.parquet",),
    about={
        "fold": "fold of cross-validation",
        "reliability": "r of the prediction from other subjects, in the training part; null with one",
        "selected": "whether the fold uses the voxel",
        "ceiling": "the same on the held-out part",
    },
)

Floats = NDArray[np.floating]

#: false discovery rate among the voxels called reliable
FALSE_DISCOVERY_RATE = 0.05
#: number of circular shifts, and maximum number of voxels shifted, for the null distribution of reliability
SHIFTS, SAMPLE = 20, 2000


def reliable(
    ridges: Sequence[Ridge], inner: Sequence[Split], responses: Floats, r: Floats, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Return which voxels the other subjects predict, bool (voxels,): r above 0 at `FALSE_DISCOVERY_RATE`.

    The null distribution of r comes from circular shifts of `responses` (n, voxels) against those of the
    other subjects (see `p_value`), pooled over the subject's voxels or a sample of them. The false discovery
    rate is over the subject's voxels (Benjamini & Hochberg 1995). `ridges` are from the other subjects, one
    for each inner fold; `r` (voxels,) is the mean over these folds.
    """
    from scipy import stats  # slow to import, and only needed for voxels

    n = len(responses)
    sample = responses[:, rng.permutation(len(r))[:SAMPLE]]
    shifts = rng.choice(np.arange(1, n), min(SHIFTS, n - 1), replace=False)
    null = np.sort([_mean_r(ridges, inner, np.roll(sample, shift, axis=0)) for shift in shifts], axis=None)
    reached = len(null) - np.searchsorted(null, r - 1e-6)  # ties count, whatever the rounding
    rates: Floats = stats.false_discovery_control((1 + reached) / (1 + len(null)))
    return rates < FALSE_DISCOVERY_RATE


def _mean_r(ridges: Sequence[Ridge], inner: Sequence[Split], responses: Floats) -> Floats:
    every = np.ones((len(inner), responses.shape[1]), dtype=bool)
    r: Floats = encode([ridges], inner, responses, every)[0]
    return r


def analyse_voxels(
    responses: Mapping[str, Responses],
    passages: Sequence[object],
    nuisance: ArrayLike,
    folds: int,
    only_reliable: bool,
    seed: int,
) -> pd.DataFrame:
    """Return the table `voxels`: reliability, selection and ceiling of every voxel in every fold.

    The held-out part of a fold has no influence on its reliability and selection; with only one subject,
    reliability and ceiling are nan. All voxels are selected unless `only_reliable`. `passages` are (N,),
    `nuisance` (N, regressors). Within a training part, there is one fold fewer than the outer `folds`, but at
    least two. Raises ValueError if there are fewer passages than folds.
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
                ceiling = correlation(_subject_ridge(others, split).predict(train), test)
                ridges = [_subject_ridge(others[np.ix_(split.train, split.train)], part) for part in inner]
                r = _mean_r(ridges, inner, train)
                if only_reliable:
                    rng = np.random.default_rng(derive(seed, "reliable voxels", subject, fold))
                    selected = reliable(ridges, inner, train, r, rng)
            row = {"subject": subject, "voxel": measured.voxels, "fold": fold}
            frames.append(pd.DataFrame(row | {"reliability": r, "selected": selected, "ceiling": ceiling}))
    return pd.concat(frames, ignore_index=True)


def _subject_ridge(gram: Floats, split: Split) -> Ridge:
    """Return the ridge regression from features with this Gram matrix, (stimuli, stimuli)."""
    return Ridge.from_gram(*split.gram(gram), split.freedom)


BRAIN_ENCODING = Schema(
    {"task": TEXT, "subject": TEXT, "voxel": INT, "r": FLOAT, "ceiling": FLOAT, "n_folds": INT},
    keys=3,
    paths=("similarity/{model}/seed{seed}/brain_encoding.parquet",),
)
BRAIN_ENCODING_SUMMARY = Schema(
    {"task": TEXT, "subject": TEXT, "n_voxels": INT, "r": FLOAT, "ceiling": FLOAT, "p_value": FLOAT},
    keys=2,
    paths=("similarity/{model}/seed{seed}/brain_encoding_summary.parquet",),
    about={
        "n_voxels": "voxels selected in some fold",
        "r": "mean over voxels",
        "ceiling": "mean over voxels",
    },
)


def vector_ridge(vectors: Floats, split: Split) -> Ridge:
    """Return the ridge regression from vectors (N, d) of all stimuli."""
    return Ridge.from_features(*split.standardised(vectors), split.freedom)


def p_value(ridges: Sequence[Ridge], splits: Sequence[Split], products: Floats) -> float:
    """Return p for whether held-out responses are predicted at all, against circular shifts of the vectors.

    The statistic is the covariance of predicted and measured responses, summed over folds and voxels. With
    one penalty for all voxels it is a sum over pairs of stimuli, so shifting the vectors by 1, 2, ... stimuli
    across all folds needs no new fit. Shifts preserve the autocorrelation of vectors and responses. Shifting
    predictions within folds would be invalid: any two folds predict each other, which makes their scores
    similar, and the first stimuli of a fold resemble the last stimuli of the preceding fold.

    The test is one-sided: p is (1 + number of shifts that reach the statistic) / (1 + number of shifts), at
    least 1 / stimuli. `products` (stimuli, stimuli) is the Gram matrix of responses without nuisance.
    """
    weights = np.zeros_like(products)
    for ridge, split in zip(ridges, splits, strict=True):
        part = ridge.weights(products[np.ix_(split.train, split.train)])
        part -= part.mean(axis=0)
        weights[np.ix_(split.test, split.train)] = part / max(np.linalg.norm(part), np.finfo(float).tiny)
    sums = shifted_sums(weights, products)
    reached = sums[1:] >= sums[0] - 1e-9 * np.abs(sums).max()  # ties count, whatever the rounding
    return float((1 + reached.sum()) / len(sums))


def shifted_sums(a: Floats, b: Floats) -> Floats:
    """Return sums (n,) over i and j of a[i, j] b[i + s, j + s] for s = 0, 1, ..., with circular indices."""
    index = np.arange(len(a))
    spectra = [fft.rfft(each[index[:, None], (index[:, None] + index) % len(a)], axis=0) for each in (a, b)]
    sums: Floats = fft.irfft((spectra[0].conj() * spectra[1]).sum(axis=1), n=len(a))
    return sums


def analyse_encoding(
    vectors: Mapping[str, Floats],
    responses: Mapping[str, Responses],
    voxels: pd.DataFrame,
    splits: Sequence[Split],
    regression: str,
    seed: int,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the tables 'brain_encoding' and 'brain_encoding_summary' of all subjects and tasks.

    `vectors` are (stimuli, d) by task; `regression` is `ridge` or `network`. The first table has the voxels
    that some fold selects. `p_value` always tests ridge on these voxels, in all folds, which is valid because
    vectors do not influence the selection. A subject without selected voxels has nan in the summary.
    """
    ridges = [[vector_ridge(each, split) for split in splits] for each in vectors.values()]
    regressions: Sequence[Sequence[Regression]] = ridges
    if regression == "network":
        seeds = [
            derive(seed, "fold", fold) for fold in range(len(splits))
        ]  # the same for all tasks, so that their networks start with the same weights
        regressions = [
            [Network(*split.standardised(each), seed) for split, seed in zip(splits, seeds, strict=True)]
            for each in vectors.values()
        ]
    scores, summary = [], []
    for subject, measured in responses.items():
        rows = voxels[voxels["subject"] == subject]
        selected, ceiling = (
            rows.pivot(index="fold", columns="voxel", values=column)[measured.voxels].to_numpy()
            for column in ("selected", "ceiling")
        )
        used = selected.any(axis=0)
        folds = selected.sum(axis=0)[used]
        mean_ceiling = np.where(selected, ceiling, 0).sum(axis=0)[used] / folds
        gram = products(measured.values[:, used], train_on_all(splits[0].design))
        r = encode(regressions, splits, measured.values, selected)[:, used]
        for task, task_r, task_ridges in zip(vectors, r, ridges, strict=True):
            row = {"task": task, "subject": subject}
            columns = {"voxel": measured.voxels[used], "r": task_r, "ceiling": mean_ceiling, "n_folds": folds}
            scores.append(pd.DataFrame(row | columns))
            numbers = [np.nan] * 3
            if used.any():
                numbers = [task_r.mean(), mean_ceiling.mean(), p_value(task_ridges, splits, gram)]
            summary.append((task, subject, used.sum(), *numbers))
    names = ["task", "subject", "n_voxels", "r", "ceiling", "p_value"]
    return pd.concat(scores, ignore_index=True), pd.DataFrame(summary, columns=names)
