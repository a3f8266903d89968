"""Checks of the section `brain` and its files before any job starts."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from headspec.config.sections.similarity import Brain
from headspec.config.sources import locate
from headspec.config.study import Study
from headspec.errors import DataError
from headspec.similarity.brain import responses, stimuli
from headspec.similarity.brain.folds import contiguous, inner_folds

LEAST = 3  # minimum number of stimuli in a fold: with two, every correlation is 1 or -1
MARGIN = 3  # minimum number of training stimuli beyond one for the mean and one per regressor


def check_experiment(study: Study) -> None:
    """Read stimuli and responses, if the study has them; raise DataError with a line for each problem."""
    brain = study.brain
    if brain is None:
        return
    texts = stimuli.read_stimuli(brain.stimuli, brain.nuisance)
    problems: list[DataError] = []
    subjects = []
    try:
        path = locate(brain.responses, responses.KEY)
        subjects = list(responses.scan(path, list(texts["stimulus_id"]), lambda *_: None))
        if brain.voxels == "reliable" and len(subjects) == 1:
            raise DataError(
                f"brain.voxels: got 'reliable', which compares subjects, but {path.name} has only "
                f"'{subjects[0]}'; expected 'all'"
            )
    except DataError as error:
        problems.append(error)
    problems += map(DataError, _too_few(brain, texts, len(subjects)))
    if problems:
        raise DataError.combined(problems)


def _too_few(brain: Brain, texts: pd.DataFrame, subjects: int) -> Iterator[str]:
    """Yield the first problem with the number of folds, if any."""
    units = stimuli.units(texts)
    n, unit = len(set(units)), "stimuli" if texts["passage"].isna().all() else "passages"
    if n < brain.folds:
        yield f"brain.folds: got {brain.folds}, expected at most {n}, the number of {unit}"
        return
    fold = contiguous(units, brain.folds)
    smallest = np.bincount(fold).min()
    if smallest < LEAST:
        yield (
            f"brain.folds: got {brain.folds}, but the smallest fold would have {smallest} of {len(units)} "
            f"stimuli; expected fewer folds, with {LEAST} or more stimuli in each"
        )
        return
    training = [
        [unit for unit, f in zip(units, fold, strict=True) if f != held_out]
        for held_out in range(brain.folds)
    ]
    if min(len(set(part)) for part in training) < 2:
        yield f"brain.folds: got {brain.folds}, but some fold would leave a single passage to train on"
        return
    fewest = min(map(len, training))
    if subjects > 1:  # reliability uses folds within the training parts
        inner = [np.bincount(contiguous(part, inner_folds(brain.folds))) for part in training]
        fewest = min(int(sizes.sum() - sizes.max()) for sizes in inner)
    needed = 1 + len(brain.nuisance) + MARGIN
    if fewest < needed:
        yield (
            f"brain.folds: got {brain.folds}, but the smallest training part would have {fewest} of "
            f"{len(units)} stimuli; expected {needed} or more for a mean and {len(brain.nuisance)} regressors"
        )
