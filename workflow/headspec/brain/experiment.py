"""What the section `brain` of a config names, checked before any job starts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from headspec.brain import responses, stimuli
from headspec.brain.folds import contiguous, inner_folds
from headspec.errors import DataError
from headspec.locate import locate
from headspec.sections import Brain
from headspec.study import Study

LEAST = 3  # stimuli of a fold: of two, every correlation is 1 or -1
MARGIN = 3  # stimuli to train on beyond one for the mean and each regressor


def check(study: Study) -> None:
    """Read stimuli and responses once, keeping neither, so that no job starts on what will not do.

    Raises
    ------
    DataError
        With one line for every problem found.
    """
    brain = study.brain
    if brain is None:
        return
    texts = stimuli.read(brain.stimuli, brain.nuisance)
    problems: list[DataError] = []
    subjects = []
    try:
        path = locate(brain.responses, responses.KEY)
        subjects = list(responses.scan(path, list(texts["stimulus_id"]), lambda *_: None))
        if brain.voxels == "reliable" and len(subjects) == 1:
            raise DataError(
                f"brain.voxels: got 'reliable', which compares subjects, but the only one in {path.name} "
                f"is '{subjects[0]}'; expected 'all'"
            )
    except DataError as error:
        problems.append(error)
    problems += map(DataError, _too_few(brain, texts, len(subjects)))
    if problems:
        raise DataError.of(problems)


def _too_few(brain: Brain, texts: pd.DataFrame, subjects: int) -> Iterator[str]:
    """What is wrong with the number of folds."""
    whole = stimuli.units(texts)
    n, what = len(set(whole)), "stimuli" if texts["passage"].isna().all() else "passages"
    if n < brain.folds:
        yield f"brain.folds: got {brain.folds}, but there are {n} {what}; expected at most as many folds"
        return
    fold = contiguous(whole, brain.folds)
    smallest = np.bincount(fold).min()
    if smallest < LEAST:
        yield (
            f"brain.folds: got {brain.folds}, with which a fold has {smallest} of {len(whole)} stimuli; "
            f"expected {LEAST} or more in each, so fewer folds"
        )
        return
    trained = [[unit for unit, f in zip(whole, fold, strict=True) if f != out] for out in range(brain.folds)]
    if min(len(set(part)) for part in trained) < 2:
        yield f"brain.folds: got {brain.folds}, with which one passage is all there is to train on"
        return
    least = min(map(len, trained))
    if subjects > 1:  # which are compared within training parts
        inner = [np.bincount(contiguous(part, inner_folds(brain.folds))) for part in trained]
        least = min(int(sizes.sum() - sizes.max()) for sizes in inner)
    needed = 1 + len(brain.nuisance) + MARGIN
    if least < needed:
        yield (
            f"brain.folds: got {brain.folds}, with which {least} of {len(whole)} stimuli are all there is to "
            f"train on somewhere; expected {needed} or more, for a mean and {len(brain.nuisance)} regressors"
        )
