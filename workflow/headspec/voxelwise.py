"""How well vectors of stimuli predict brain responses to them, voxel by voxel (Luo et al. 2022)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import fft, stats

from headspec.folds import Split
from headspec.network import Network
from headspec.responses import Responses
from headspec.ridge import Ridge
from headspec.seeds import derive
from headspec.similarity import cosine

Floats = NDArray[np.floating]

#: of the test whether encoding is above 0
PERMUTATIONS = 9999


class Regression(Protocol):
    """Features of training and held-out stimuli; of responses to the first it makes those to the others."""

    def predict(self, responses: Floats) -> Floats: ...


def ridge(vectors: Floats, split: Split, seed: int) -> Ridge:
    """Ridge from vectors (N, d) of all stimuli; nothing in it is random."""
    return Ridge.of_features(*split.standardised(vectors), split.freedom)


def network(vectors: Floats, split: Split, seed: int) -> Network:
    """A network from vectors (N, d) of all stimuli."""
    return Network(*split.standardised(vectors), seed)


#: `brain.regression` of the config: how vectors of all stimuli become a regression
REGRESSIONS: dict[str, Callable[[Floats, Split, int], Regression]] = {"ridge": ridge, "network": network}


def shifted(predicted: Floats, measured: Floats) -> Floats:
    """Pearson correlation of every voxel when the predictions are moved on by 0, 1, ... stimuli.

    What moves past the end comes in at the beginning, so predictions keep their autocorrelation.

    Parameters
    ----------
    predicted, measured : (m, voxels)

    Returns
    -------
    (m, voxels)
        Row 0 is the correlation of what belongs together. 0 where either is constant.
    """
    spectra = [fft.rfft(_unit(values), axis=0) for values in (predicted, measured)]
    return fft.irfft(spectra[0].conj() * spectra[1], n=len(measured), axis=0)


def _unit(values: Floats) -> Floats:
    """Columns with mean 0 and length 1, or 0 where they are constant."""
    centred = values - values.mean(axis=0)
    length = np.sqrt((centred**2).sum(axis=0))
    constant = length <= 1e-6 * np.abs(values).max(axis=0)
    centred *= np.divide(1, length, out=np.zeros_like(length), where=~constant)
    return centred


@dataclass(frozen=True)
class Encoding:
    """How well one task's vectors predict a subject's voxels.

    Attributes
    ----------
    r : (voxels,)
        Mean over the folds in which the voxel is selected; nan where it never is.
    p_value : float
        Whether the mean of `r` is above 0; nan without selected voxels.
    """

    r: Floats
    p_value: float


def encode(
    regressions: Mapping[str, Sequence[Regression]],
    splits: Sequence[Split],
    responses: Floats,
    selected: NDArray[np.bool_],
    rng: np.random.Generator,
) -> dict[str, Encoding]:
    """Encoding scores of one subject's voxels.

    Correlations are taken within a fold and then averaged. Over all folds at once the mean of each
    would enter: it is predicted from the other folds, so that it is low where the measured one is
    high, and pure noise would score below 0.

    The test moves the held-out predictions of every fold in a circle, by as much in all voxels, at
    random; p = (1 + times that the mean r is reached) / (1 + `PERMUTATIONS`), one-sided.

    Parameters
    ----------
    regressions : task: one regression for each split
    splits : folds
    responses : (stimuli, voxels)
    selected : (folds, voxels)
        Voxels that count in each fold.
    rng : Generator
        Of the test.
    """
    folds = selected.sum(axis=0)
    weights = selected / np.maximum(folds, 1)  # of a voxel's r in each fold
    r = {task: np.zeros(len(folds)) for task in regressions}
    means: dict[str, list[Floats]] = {task: [] for task in regressions}  # of each fold, at every shift
    for i, split in enumerate(splits):
        train, test = split.standardised(responses[:, selected[i]])
        part = weights[i, selected[i]]
        for task, fitted in regressions.items():
            correlations = shifted(fitted[i].predict(train), test)
            r[task][selected[i]] += part * correlations[0]
            means[task].append(correlations @ (part / np.maximum((folds > 0).sum(), 1)))
    for values in r.values():
        values[folds == 0] = np.nan
    moves = [rng.integers(len(split.test), size=PERMUTATIONS) for split in splits]
    found = {}
    for task, each in means.items():
        null = np.sum([mean[move] for mean, move in zip(each, moves, strict=True)], axis=0)
        reached = null >= sum(mean[0] for mean in each) - 1e-9  # equal but for rounding counts
        p = (1 + reached.sum()) / (1 + PERMUTATIONS) if folds.any() else np.nan
        found[task] = Encoding(r[task], float(p))
    return found


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
    """
    build = REGRESSIONS[regression]
    regressions = {
        task: [build(each, split, derive(seed, task, fold)) for fold, split in enumerate(splits)]
        for task, each in vectors.items()
    }
    scores, summary = [], []
    for subject, measured in responses.items():
        own = voxels[voxels["subject"] == subject]
        selected, ceiling = (
            own.pivot(index="fold", columns="voxel", values=column)[measured.voxels].to_numpy()
            for column in ("selected", "ceiling")
        )
        rng = np.random.default_rng(derive(seed, "encoding", subject))
        folds = selected.sum(axis=0)
        used = folds > 0
        best = np.where(selected, ceiling, 0).sum(axis=0)[used] / folds[used]
        for task, found in encode(regressions, splits, measured.values, selected, rng).items():
            row = {"task": task, "subject": subject}
            r = found.r[used]
            columns = {"voxel": measured.voxels[used], "r": r, "ceiling": best, "n_folds": folds[used]}
            scores.append(pd.DataFrame(row | columns))
            means = (float(each.mean()) if len(each) else np.nan for each in (r, best))
            summary.append((task, subject, len(r), *means, found.p_value))
    names = ["task", "subject", "n_voxels", "r", "ceiling", "p_value"]
    return pd.concat(scores, ignore_index=True), pd.DataFrame(summary, columns=names)


def similarities(encoding: pd.DataFrame) -> pd.DataFrame:
    """Cosine of the encoding scores of every two tasks, over the voxels of each subject.

    Parameters
    ----------
    encoding : table 'encoding'

    Returns
    -------
    DataFrame
        Columns task_a, task_b (in order of name), subject, similarity.
    """
    rows = []
    for subject, part in encoding.groupby("subject"):
        profiles = part.pivot(index="voxel", columns="task", values="r")
        for a, b in itertools.combinations(profiles, 2):
            rows.append((a, b, subject, cosine(profiles[a].to_numpy(), profiles[b].to_numpy())))
    return pd.DataFrame(rows, columns=["task_a", "task_b", "subject", "similarity"])


def subject_interval(values: ArrayLike, confidence: float) -> tuple[float, float, float]:
    """Mean over subjects (n,), and the ends of its t interval: nan with one subject."""
    values = np.asarray(values, dtype=float)
    mean = float(values.mean())
    if len(values) < 2:
        return mean, np.nan, np.nan
    half = stats.t.ppf((1 + confidence) / 2, len(values) - 1) * stats.sem(values)
    return mean, mean - half, mean + half
