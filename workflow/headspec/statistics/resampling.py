"""Predictions for the same examples and their resampling; intervals, p-values and their correction."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from headspec import per_example
from headspec.errors import DataError
from headspec.tasks.metrics import Metric, score, shuffled_scores

Floats = NDArray[np.float64]


class Predictions(NamedTuple):
    """Predictions of a task, by example."""

    example: NDArray[np.intp]  # (n,), increasing numbers
    label: Floats  # (n,) or (n, values)
    prediction: Floats  # (sets, n) or (sets, n, values)

    @property
    def content(self) -> bytes:
        """Examples and their labels as bytes, to compare."""
        return np.column_stack([self.example, self.label]).tobytes()


def task_predictions(frame: pd.DataFrame, task: str, sets: pd.MultiIndex, where: str) -> Predictions:
    """Return the predictions of a task under each of `sets`, identified by values in columns of `frame`.

    Raises DataError, naming `where`, if sets lack examples or predictions, or differ in labels.
    """
    task_rows = np.flatnonzero(frame["task"] == task)
    set_index = sets.get_indexer(pd.MultiIndex.from_frame(frame[list(sets.names)].iloc[task_rows]))
    examples = frame["example"].to_numpy(dtype=np.intp)
    order = np.lexsort((examples[task_rows], set_index))[np.count_nonzero(set_index < 0) :]
    counts = np.bincount(set_index[order], minlength=len(sets))
    n = max(1, counts.max(initial=0))
    for place in np.flatnonzero(counts < n).tolist():
        some = " of some examples" if counts[place] else ""
        named = ", ".join(
            f"{name} {value!r}" if isinstance(value, str) else f"{name} {value:g}"
            for name, value in zip(sets.names, sets[place], strict=True)
        )
        raise DataError(f"{where} lacks predictions{some} with {named}")
    rows = task_rows[order]
    example, label, prediction = (
        values.reshape(len(sets), n, *values.shape[1:])
        for values in (
            examples[rows],
            per_example.array(frame, "label", rows),
            per_example.array(frame, "prediction", rows),
        )
    )
    if (example != example[0]).any() or (label != label[0]).any() or np.isnan(prediction).any():
        raise DataError(f"{where} lacks predictions of some examples under some masks")
    return Predictions(example[0].copy(), label[0].copy(), prediction)  # copies, to free the other sets


def unique_keys(rows: pd.DataFrame, names: list[str]) -> pd.MultiIndex:
    """Return the distinct values of columns in rows, sorted."""
    return pd.MultiIndex.from_frame(rows[names].drop_duplicates()).sort_values()


#: corrected p below which a difference counts in figures and verdicts
SIGNIFICANCE = 0.05
#: maximum number of permuted predictions in memory
CHUNK = 2**22


class Clusters(NamedTuple):
    """Units of resampling: clusters of examples, or single examples."""

    number: int
    cluster: NDArray[np.intp] | slice = slice(
        None
    )  # (n,), cluster of each example; a slice if each is its own


def permuted_scores(
    metric: str | Metric,
    label: Floats,
    predictions: Floats,
    resamples: int,
    rng: np.random.Generator,
    clusters: Clusters | None = None,
) -> Floats:
    """Return metrics (resamples, sets, k) of k alternative predictions, permuted by cluster of examples.

    `label` is (n,) or (n, values), `predictions` (sets, k, n) or (sets, k, n, values). All sets are permuted
    in the same way. Draws depend only on `rng`, the number of clusters and k: seeds evaluated on the same
    examples err in the same direction, and separate permutations would average out their errors.
    """
    sets, k, n = predictions.shape[:3]
    chunks = [np.empty((0, sets, k))]
    clusters = clusters or Clusters(n)
    for start in range(0, resamples, rows := max(1, CHUNK // (n * k))):
        drawn = permutations((min(rows, resamples - start), clusters.number, k), rng)
        chunks.append(shuffled_scores(metric, label, predictions, drawn[:, clusters.cluster]))
    return np.concatenate(chunks)


def permutations(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.uint8]:
    """Return random permutations of k indices, (..., k), equal to those of ``rng.permuted``.

    For two indices, the lowest of 32 random bits decides whether to swap; here they are drawn all at once.
    """
    *size, k = shape
    if k != 2:
        return rng.permuted(np.broadcast_to(np.arange(k, dtype=np.uint8), shape), axis=-1)
    second = (rng.integers(2**32, size=size, dtype=np.uint32) & 1).astype(np.uint8)
    return np.stack([1 - second, second], axis=-1)


def paired_differences(
    metric: str, label: Floats, method: Floats, base: Floats, resamples: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return bootstrap and null distribution of the differences between two methods, both (resamples, S).

    The differences are those of `metric`. In the bootstrap, examples are drawn with replacement; under the
    null hypothesis, the methods' predictions are swapped in random examples. Both use the same examples for
    all seeds; otherwise the seeds' errors on the same examples would average out. Examples with the same
    label and predictions are of one kind: it suffices to draw the number of each kind (multinomial), and how
    many of each are swapped (binomial). `method` and `base` are (S, n) or (S, n, values).
    """
    # kinds are sorted by the last of several values first; draws depend on this order
    columns = [values if values.ndim == 1 else values[:, ::-1] for values in (label, *method, *base)]
    _, first, counts = np.unique(np.column_stack(columns), axis=0, return_index=True, return_counts=True)
    label, method, base = label[first], method[:, first], base[:, first]
    drawn = rng.multinomial(counts.sum(), counts / counts.sum(), size=resamples)
    swapped = rng.binomial(counts, 0.5, size=(resamples, len(counts)))
    here, there = np.hstack([counts - swapped, swapped]), np.hstack([swapped, counts - swapped])
    bootstrap, null = [], []
    for one, other in zip(method, base, strict=True):
        bootstrap.append(score(metric, label, one, drawn) - score(metric, label, other, drawn))
        both = np.concatenate([label, label]), np.concatenate([one, other])
        null.append(score(metric, *both, here) - score(metric, *both, there))
    return np.stack(bootstrap, axis=1), np.stack(null, axis=1)


def interval(samples: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Return the percentile interval, (...) each, of samples (resamples, ...); nan if any resample is nan."""
    low, high = np.quantile(samples, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return low, high


def p_value(observed: ArrayLike, null: Floats) -> Floats:
    """Return the two-sided p of a permutation test, (...); nan where `observed` is.

    It is (1 + null values at least as far from 0) / (1 + permutations). `observed` is (...), `null`
    (permutations, ...).
    """
    reached = np.abs(null) >= np.abs(observed) * (1 - 1e-9) - 1e-12  # ties up to rounding count
    return np.where(np.isnan(observed), np.nan, (1 + reached.sum(axis=0)) / (1 + len(null)))


def holm(p: ArrayLike) -> Floats:
    """Return p-values (n,) with Holm's (1979) step-down correction; nan stays nan and does not count."""
    p = np.asarray(p, dtype=float)
    order = np.argsort(p)[: np.count_nonzero(~np.isnan(p))]
    corrected = np.full_like(p, np.nan)
    steps = p[order] * np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return corrected
