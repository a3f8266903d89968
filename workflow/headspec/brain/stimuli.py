"""Stimuli of a brain experiment: a table of texts in the order in which they were presented."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from headspec import columns, readers
from headspec.brain import nuisance
from headspec.errors import DataError, listing, nearest
from headspec.locate import locate
from headspec.tables import INT, TEXT, Schema

# in the order of presentation
STIMULI = Schema({"example": INT, "stimulus_id": TEXT, "text": TEXT, "passage": TEXT}, keys=1)

KEY = "brain.stimuli"
OWN = ("stimulus_id", "text", "passage")


def read(source: str, regressors: Sequence[str] = ()) -> pd.DataFrame:
    """The stimuli in the order of presentation.

    Parameters
    ----------
    source : file, as in the config
    regressors : names of `brain.nuisance`

    Returns
    -------
    DataFrame
        Columns stimulus_id, text, passage (null where the file has none), and those of `regressors` that are
        not built in.

    Raises
    ------
    DataError
        With one line for every problem found.
    """
    path = locate(source, KEY)
    own = [name for name in regressors if name not in nuisance.BUILT_IN]

    def wanted(known: list[str]) -> list[str]:
        missing = [
            f"{KEY}: no column '{name}' in {path.name}; it has {listing(known)}.{nearest(name, known)}"
            for name in OWN[:2]
            if name not in known
        ]
        for name in regressors:
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
