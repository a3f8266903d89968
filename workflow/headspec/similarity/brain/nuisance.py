"""Nuisance regressors: properties of stimuli that may relate vectors and brain responses spuriously."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from headspec.characters import words_alone
from headspec.tables import FLOAT, INT, Schema

NUISANCE = Schema({"example": INT, "nuisance": pa.list_(FLOAT)}, keys=1)
"""Table `nuisance`: a row for each example.
brain/nuisance.parquet

nuisance: a value for each of `brain.nuisance`, in its order
"""

Floats = NDArray[np.float64]


def word_counts(texts: Iterable[str]) -> Counter[str]:
    """Number of occurrences of each word in `texts`."""
    return Counter(word for text in texts for word in words_alone(text))


def length(stimuli: pd.DataFrame, counts: Mapping[str, int]) -> Floats:
    """Characters in each text: nearly proportional to its words, but not constant for one-word stimuli."""
    return np.array([len(text) for text in stimuli["text"]], dtype=float)


def position(stimuli: pd.DataFrame, counts: Mapping[str, int]) -> Floats:
    """Position of each stimulus, from 0, in its passage or, without passages, among all stimuli."""
    if stimuli["passage"].isna().all():
        return np.arange(len(stimuli), dtype=float)
    return np.asarray(stimuli.groupby("passage").cumcount(), dtype=float)


def frequency(stimuli: pd.DataFrame, counts: Mapping[str, int]) -> Floats:
    """Mean log frequency of each text's words; one is added to each count, so that none is 0."""
    total = sum(counts.values()) + 1
    logs = [[np.log((counts.get(word, 0) + 1) / total) for word in words_alone(t)] for t in stimuli["text"]]
    return np.array([np.mean(each) if each else -np.log(total) for each in logs])


#: name in `brain.nuisance`: function of stimuli (text, passage) and word counts that gives (n,)
BUILT_IN: dict[str, Callable[[pd.DataFrame, Mapping[str, int]], Floats]]
BUILT_IN = {"length": length, "position": position, "frequency": frequency}


def regressors(stimuli: pd.DataFrame, names: Iterable[str], counts: Mapping[str, int]) -> Floats:
    """The regressors `names`, built in or columns of `stimuli`, as (n, regressors).

    `stimuli` in the order of presentation have columns text, passage (null if absent) and regressors;
    `counts` are occurrences of words in a large sample of texts.
    """
    built = [BUILT_IN[n](stimuli, counts) if n in BUILT_IN else stimuli[n].to_numpy() for n in names]
    return np.column_stack([np.empty((len(stimuli), 0)), *built])
