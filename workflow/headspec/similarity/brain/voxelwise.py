"""Brain encoding: predict each voxel's responses from vectors of the stimuli (Luo et al. 2022)."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import fft

from headspec.seeds import derive
from headspec.similarity.brain.folds import Split, products, train_on_all
from headspec.similarity.brain.network import Network
from headspec.similarity.brain.responses import Responses
from headspec.similarity.brain.ridge import Ridge
from headspec.similarity.brain.scores import Regression, encode
from headspec.tables import FLOAT, INT, TEXT, Schema

BRAIN_ENCODING = Schema(
    {"task": TEXT, "subject": TEXT, "voxel": INT, "r": FLOAT, "ceiling": FLOAT, "n_folds": INT}, keys=3
)
"""Table `brain_encoding`: a row for each task, subject and voxel.
similarity/{model}/seed{seed}/brain_encoding.parquet
"""
BRAIN_ENCODING_SUMMARY = Schema(
    {"task": TEXT, "subject": TEXT, "n_voxels": INT, "r": FLOAT, "ceiling": FLOAT, "p_value": FLOAT}, keys=2
)
"""Table `brain_encoding_summary`: a row for each task and subject.
similarity/{model}/seed{seed}/brain_encoding_summary.parquet

n_voxels: voxels selected in some fold
r, ceiling: mean over voxels
"""

Floats = NDArray[np.floating]


def ridge(vectors: Floats, split: Split) -> Ridge:
    """Ridge regression from vectors (N, d) of all stimuli."""
    return Ridge.from_features(*split.standardised(vectors), split.freedom)


def p_value(ridges: Sequence[Ridge], splits: Sequence[Split], products: Floats) -> float:
    """Test, against every circular shift of the vectors, that held-out responses are predicted at all.

    The statistic is the covariance of predicted and measured responses, summed over folds and voxels. With
    one penalty for all voxels it is a sum over pairs of stimuli, so shifting the vectors by 1, 2, ... stimuli
    across all folds needs no new fit. Shifts preserve the autocorrelation of vectors and responses. Shifting
    predictions within folds would be invalid: any two folds predict each other, which makes their scores
    alike, and the first stimuli of a fold resemble the last ones of the fold before.

    One-sided: (1 + number of shifts that reach the statistic) / (1 + shifts), at least 1 / stimuli.
    `products` (stimuli, stimuli) are of responses without nuisance.
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
    """Sums (n,) over i and j of a[i, j] b[i + s, j + s] for s = 0, 1, ..., with circular indices."""
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
    """Return the tables 'brain_encoding' and 'brain_encoding_summary' of all subjects and tasks.

    `vectors` are (stimuli, d) by task; `regression` is `ridge` or `network`. The first table has the voxels
    that some fold selects. `p_value` always tests ridge on them, in all folds: valid because vectors do not
    influence the selection.
    """
    ridges = [[ridge(each, split) for split in splits] for each in vectors.values()]
    regressions: Sequence[Sequence[Regression]] = ridges
    if regression == "network":
        seeds = [
            derive(seed, "fold", fold) for fold in range(len(splits))
        ]  # the same, so networks start alike
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
