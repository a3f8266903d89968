"""Stimuli of a brain experiment: reading and checking them, and the checks of all that `brain` names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from headspec import columns, readers
from headspec.brain import nuisance, responses
from headspec.brain.folds import contiguous
from headspec.errors import DataError, listing, nearest
from headspec.study import Brain, Study

KEY = "brain.stimuli"
OWN = ("stimulus_id", "text", "passage")
LEAST = 3  # stimuli of a fold: of two, every correlation is 1 or -1


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
    problems: list[str] = []
    try:
        stimuli = read_stimuli(brain)
        problems += _too_few(brain, stimuli)
        path = responses_file(brain)
        subjects = responses.scan(path, list(stimuli["stimulus_id"]), lambda *_: None)
        if brain.voxels == "reliable" and len(subjects) == 1:
            problems.append(
                f"brain.voxels: got 'reliable', which compares subjects, but the only one in {path.name} "
                f"is '{listing(subjects)}'; expected 'all'"
            )
    except DataError as error:
        problems.append(str(error))
    if problems:
        raise DataError("\n".join(problems))


def stimuli_file(brain: Brain) -> Path:
    """The file of the stimuli; DataError where there is none."""
    return readers.locate(brain.stimuli, KEY)


def responses_file(brain: Brain) -> Path:
    """The file of the responses; DataError where there is none."""
    return readers.locate(brain.responses, responses.KEY)


def read_stimuli(brain: Brain) -> pd.DataFrame:
    """The stimuli in the order of presentation.

    Returns
    -------
    DataFrame
        Columns stimulus_id, text, passage (null where the file has none), and those of `nuisance`.

    Raises
    ------
    DataError
        With one line for every problem found.
    """
    path = stimuli_file(brain)
    own = [name for name in brain.nuisance if name not in nuisance.BUILT_IN]

    def wanted(known: list[str]) -> list[str]:
        missing = [
            f"{KEY}: no column '{name}' in {path.name}; it has {listing(known)}.{nearest(name, known)}"
            for name in OWN[:2]
            if name not in known
        ]
        for name in brain.nuisance:
            names = [*nuisance.BUILT_IN, *(each for each in known if each not in OWN)]
            if name in nuisance.BUILT_IN and name in known:
                missing.append(
                    f"brain.nuisance: '{name}' is built in and also a column of {path.name}; expected "
                    "the column to have another name"
                )
            elif name not in names:
                missing.append(
                    f"brain.nuisance: got '{name}', expected {listing(nuisance.BUILT_IN)} or a numeric "
                    f"column of {path.name}.{nearest(name, names)}"
                )
        if missing:
            raise DataError("\n".join(missing))
        return list(dict.fromkeys([*(name for name in OWN if name in known), *own]))

    frame = readers.table(path, KEY, wanted, ["text", *own])
    if frame.empty:
        raise DataError(f"{KEY}: {path.name} has no rows")
    found = pd.DataFrame({"stimulus_id": columns.plainly(frame["stimulus_id"])})
    found["text"] = columns.texts(frame, "text", KEY, path.name)
    found["passage"] = columns.plainly(frame["passage"]) if "passage" in frame else None
    for name in own:
        found[name] = pd.to_numeric(frame[name], errors="coerce").astype(float)
    problems = list(_wrong_rows(found, frame, path.name, own))
    if problems:
        raise DataError("\n".join(problems))
    return found


def _wrong_rows(found: pd.DataFrame, stored: pd.DataFrame, name: str, own: list[str]) -> Iterator[str]:
    """A line for everything wrong with a column, with the first row (counted from 1, without header)."""
    identity, passage = found["stimulus_id"], found["passage"]
    wrong = [
        (KEY, "stimulus_id", "is missing", identity.isna()),
        (KEY, "stimulus_id", "was there before", identity.notna() & identity.duplicated()),
        (KEY, "text", "is empty", found["text"].str.strip() == ""),
    ]
    if "passage" in stored:
        wrong.append((KEY, "passage", "is missing", passage.isna()))
    for column in own:
        wrong.append(("brain.nuisance", column, "is no finite number", ~np.isfinite(found[column])))
    for key, column, what, rows in wrong:
        if rows.any():
            first = int(rows.to_numpy().argmax())
            yield (
                f"{key}: column '{column}' {what} in {rows.sum()} of {len(rows)} rows of {name}; the first "
                f"is row {first + 1} ('{stored[column].iloc[first]}')"
            )


def units(stimuli: pd.DataFrame) -> list[object]:
    """What folds keep whole, for each stimulus: its passage, or without passages the stimulus itself."""
    whole = stimuli["stimulus_id" if stimuli["passage"].isna().all() else "passage"]
    return whole.to_list()


def _too_few(brain: Brain, stimuli: pd.DataFrame) -> Iterator[str]:
    """What is wrong with the number of folds."""
    whole = units(stimuli)
    n, what = len(set(whole)), "stimuli" if stimuli["passage"].isna().all() else "passages"
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
    elif min(len({u for u, f in zip(whole, fold, strict=True) if f != out}) for out in set(fold)) < 2:
        yield f"brain.folds: got {brain.folds}, with which one passage is all there is to train on"


def stimuli_table(brain: Brain, counts: Mapping[str, int]) -> pd.DataFrame:
    """Table 'stimuli'.

    Parameters
    ----------
    brain : section of the config
    counts : word: occurrences in the tasks' training texts, for the nuisance `frequency`
    """
    stimuli = read_stimuli(brain)
    regressors = nuisance.regressors(stimuli, brain.nuisance, counts)
    made = stimuli[["stimulus_id", "text", "passage"]].assign(nuisance=list(regressors))
    made.insert(0, "example", np.arange(len(made)))
    return made
