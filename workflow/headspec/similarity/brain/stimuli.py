"""Stimuli of a brain experiment: texts in the order of presentation, and their nuisance regressors."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from headspec.config.sources import locate
from headspec.data.characters import words_alone
from headspec.data.sources import columns
from headspec.data.sources.formats import registry
from headspec.data.sources.formats.options import Options
from headspec.errors import DataError, listing, nearest
from headspec.tables import FLOAT, INT, TEXT, Schema

NUISANCE = Schema(
    {"example": INT, "nuisance": pa.list_(FLOAT)},
    keys=1,
    paths=("brain/nuisance.parquet",),
    about={
        "nuisance": "a value for each of `brain.nuisance`, in its order",
    },
)

Floats = NDArray[np.float64]


def word_counts(texts: Iterable[str]) -> Counter[str]:
    """Return the number of occurrences of each word in `texts`."""
    return Counter(word for text in texts for word in words_alone(text))


def length(stimuli: pd.DataFrame, counts: Mapping[str, int]) -> Floats:
    """Return each text's number of characters, (n,); unlike that of words, it varies for one-word stimuli."""
    return np.array([len(text) for text in stimuli["text"]], dtype=float)


def position(stimuli: pd.DataFrame, counts: Mapping[str, int]) -> Floats:
    """Return the position of each stimulus, (n,), from 0, in its passage or, without passages, among all."""
    if stimuli["passage"].isna().all():
        return np.arange(len(stimuli), dtype=float)
    return np.asarray(stimuli.groupby("passage").cumcount(), dtype=float)


def frequency(stimuli: pd.DataFrame, counts: Mapping[str, int]) -> Floats:
    """Return the mean log frequency of each text's words, (n,); one is added to each count to avoid 0.

    A text without words has the value of a word that does not occur.
    """
    total = sum(counts.values()) + 1
    logs = [[np.log((counts.get(word, 0) + 1) / total) for word in words_alone(t)] for t in stimuli["text"]]
    return np.array([np.mean(each) if each else -np.log(total) for each in logs])


#: name in `brain.nuisance`: function of stimuli (text, passage) and word counts that returns (n,)
BUILT_IN: dict[str, Callable[[pd.DataFrame, Mapping[str, int]], Floats]]
BUILT_IN = {"length": length, "position": position, "frequency": frequency}


def regressors(stimuli: pd.DataFrame, names: Iterable[str], counts: Mapping[str, int]) -> Floats:
    """Return the regressors `names`, built in or columns of `stimuli`, (n, regressors).

    `stimuli`, in the order of presentation, have columns text, passage (null if absent) and regressors;
    `counts` are occurrences of words in a large sample of texts.
    """
    built = [BUILT_IN[n](stimuli, counts) if n in BUILT_IN else stimuli[n].to_numpy() for n in names]
    return np.column_stack([np.empty((len(stimuli), 0)), *built])


STIMULI = Schema(
    {"example": INT, "stimulus_id": TEXT, "text": TEXT, "passage": TEXT},
    keys=1,
    paths=("brain/stimuli.parquet",),
)

KEY = "brain.stimuli"
COLUMNS = ("stimulus_id", "text", "passage")


def read_stimuli(source: str, regressors: Sequence[str] = ()) -> pd.DataFrame:
    """Return stimuli in the order of presentation, from a file or a package.

    Columns are stimulus_id, text, passage (null if absent), and the `regressors` that are not built in.
    Raises DataError with a line for each problem.
    """
    path = locate(source, KEY)
    extra = [name for name in regressors if name not in BUILT_IN]

    def needed(columns: list[str]) -> list[str]:
        problems = [
            f"{KEY}: no column '{name}' in {path.name}; it has {listing(columns)}.{nearest(name, columns)}"
            for name in COLUMNS[:2]
            if name not in columns
        ]
        for name in regressors:
            names = [*BUILT_IN, *(each for each in columns if each not in COLUMNS)]
            if name in BUILT_IN and name in columns:
                problems.append(
                    f"brain.nuisance: '{name}' is both built in and a column of {path.name}; "
                    "rename the column"
                )
            elif name not in names:
                problems.append(
                    f"brain.nuisance: got '{name}', expected {listing(BUILT_IN)} or a numeric "
                    f"column of {path.name}.{nearest(name, names)}"
                )
        if problems:
            raise DataError("\n".join(problems))
        return list(dict.fromkeys([*(name for name in COLUMNS if name in columns), *extra]))

    frame = registry.table([path], needed, Options(KEY, texts=("text",)))
    if frame.empty:
        raise DataError(f"{KEY}: {path.name} has no rows")
    stimuli = pd.DataFrame({"stimulus_id": columns.to_text(frame["stimulus_id"])})
    stimuli["text"] = columns.text_column(frame, "text", KEY, path.name)
    stimuli["passage"] = columns.to_text(frame["passage"]) if "passage" in frame else None
    for name in extra:
        stimuli[name] = pd.to_numeric(frame[name], errors="coerce").astype(float)
    problems = list(_wrong_rows(stimuli, frame, path.name, extra))
    if problems:
        raise DataError("\n".join(problems))
    return stimuli


def _wrong_rows(stimuli: pd.DataFrame, stored: pd.DataFrame, name: str, extra: list[str]) -> Iterator[str]:
    """Yield a line for each problem with a column, naming the first row (from 1, without the header)."""
    identity, passage = stimuli["stimulus_id"], stimuli["passage"]
    wrong = [
        (KEY, "stimulus_id", "is missing", identity.isna()),
        (KEY, "stimulus_id", "repeats an earlier one", identity.notna() & identity.duplicated()),
        (KEY, "text", "is empty", stimuli["text"].str.strip() == ""),
    ]
    if "passage" in stored:
        wrong.append((KEY, "passage", "is missing", passage.isna()))
    for column in extra:
        wrong.append(("brain.nuisance", column, "is not a finite number", ~np.isfinite(stimuli[column])))
    for key, column, problem, rows in wrong:
        if rows.any():
            first = int(rows.to_numpy().argmax())
            yield (
                f"{key}: column '{column}' {problem} in {rows.sum()} of {len(rows)} rows of {name}; "
                f"the first is row {first + 1} ('{stored[column].iloc[first]}')"
            )


def units(stimuli: pd.DataFrame) -> list[object]:
    """Return the unit of each stimulus that folds do not split: its passage or, without passages, itself."""
    return stimuli["stimulus_id" if stimuli["passage"].isna().all() else "passage"].to_list()
