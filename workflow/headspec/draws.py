"""Random orders of examples that keep the shares of classes, and draws of a few examples from them."""

from __future__ import annotations

import numpy as np
import pandas as pd

from headspec.errors import DataError
from headspec.seeds import derive


def stratified_order(labels: pd.Series, rng: np.random.Generator) -> np.ndarray:
    """Positions 0..n-1 in a random order whose every beginning has the classes in their shares.

    The i-th of a class's n_k items, in random order, comes at (i + 1/2) / n_k of the whole, so the
    first m items hold m * n_k / n of class k up to rounding, and of a rare class none too early.
    """
    shuffled = rng.permutation(len(labels))
    by_class = labels.iloc[shuffled].reset_index(drop=True)
    groups = by_class.groupby(by_class)
    place = (groups.cumcount() + 0.5) / groups.transform("size")
    return shuffled[np.argsort(place.to_numpy(), kind="stable")]


def few_shot(name: str, labels: pd.Series, samples: list[int], draws: int, seed: int) -> pd.DataFrame:
    """Draws of a few training examples: the first m of a draw are its m samples.

    So fewer samples are among more. Shares of classes are kept as far as every class is there at
    least once. Draws are independent of one another and may have examples in common.

    Parameters
    ----------
    name : the task
    labels : (n,)
        Class of each example; of a regression task, the same for all.
    samples : numbers of samples that are wanted
    seed : the study's `data_seed`

    Returns
    -------
    table 'draws', a row for every place of every draw

    Raises
    ------
    DataError
        The task has too few examples, or more classes than the fewest samples.
    """
    check_samples(name, labels, samples)
    frames = []
    for draw in range(draws):
        order = stratified_order(labels, np.random.default_rng(derive(seed, "few-shot", name, draw)))
        first = ~labels.iloc[order].duplicated().to_numpy()  # of its class
        order = np.concatenate([order[first], order[~first]])[: max(samples)]
        frames.append(pd.DataFrame({"draw": draw, "place": range(len(order)), "example": order}))
    return pd.concat(frames, ignore_index=True)


def check_samples(name: str, labels: pd.Series, samples: list[int]) -> None:
    """Raise DataError where a task has not as many examples as `samples`, or more classes."""
    n, classes = len(labels), labels.nunique()
    problems = []
    for i, wanted in enumerate(samples):
        if wanted > n:
            problems.append(
                f"transfer.samples.{i}: got {wanted}, expected at most {n}, the training examples of '{name}'"
            )
        elif wanted < classes:
            problems.append(
                f"transfer.samples.{i}: got {wanted}, expected at least {classes}, one example of "
                f"every class of '{name}'"
            )
    if problems:
        raise DataError("\n".join(problems))
