"""Sets of labels from a column of lists, or from columns of 0 and 1."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from headspec.config.values import as_text
from headspec.data.sources import columns
from headspec.errors import DataError, shown
from headspec.tasks.data import check_varied
from headspec.tasks.kinds.texts.data import Joined, Texts, parsed, split_names, written

if TYPE_CHECKING:
    from headspec.config.sections.task import Task
    from headspec.tasks.parts import Classes

#: values of columns of 0 and 1, as text in lower case, as programs and databases write them
FLAGS = dict.fromkeys(("0", "false", "f", "no", "n"), False) | dict.fromkeys(
    ("1", "true", "t", "yes", "y"), True
)
#: between the labels of a cell, unless the config names another
SEPARATOR = ","
LISTS = (list, tuple, np.ndarray)
BRACKETS = re.compile(r"\s*\[.*\]\s*", re.DOTALL)


class LabelSets(Texts):
    """Texts or pairs of texts, each with any number of labels, joined in cells by `written`."""

    least = "two sets of labels"

    def rows(self, frame: pd.DataFrame, task: Task, key: str, where: str) -> pd.DataFrame:
        texts = self.texts(frame, task, key, where)
        stored = _from_columns if isinstance(task.label, list) else _from_cells
        sets = stored(frame, task, key, where)
        if task.labels is not None:
            mapping = {as_text(label): name for label, name in task.labels.items()}
            _check(sets, list(mapping), f"{key}.labels", where, "the labels")
            sets = sets.map(lambda names: [mapping[name] for name in names])
        label = sets.map(written)
        check_varied(label, task, key, where)
        return texts.assign(label=label)

    def classes(self, task: Task, labels: pd.Series) -> dict[str, Any]:
        """Return labels in the order of `task.labels` or of columns of 0 and 1, else sorted."""
        if task.labels is not None:
            names = list(dict.fromkeys(task.labels.values()))
        elif isinstance(task.label, list):
            names = list(task.label)
        else:
            names = sorted(self.names(labels))
        return {"type": task.type, "labels": names}

    def names(self, labels: pd.Series) -> set[str]:
        return {name for label in labels.unique() for name in parsed(label)}

    def check_labels(self, labels: pd.Series, classes: Classes, key: str, where: str) -> None:
        assert isinstance(classes, dict)
        what = "the labels of the training split"
        _check(labels.map(parsed), classes["labels"], key, where, what)

    def strata(self, rows: pd.DataFrame) -> pd.Series:
        """Return the rarest label of each row, or "", so that rare labels keep their shares."""
        sets = rows["label"].map(parsed)
        frequency = Counter(name for names in sets for name in names)
        return sets.map(lambda names: min(names, key=lambda name: (frequency[name], name), default=""))


def _from_columns(frame: pd.DataFrame, task: Task, key: str, where: str) -> pd.Series:
    """Return the names of the columns that are 1 in each row."""
    flags = {}
    for name in task.label:
        columns.check_plain(frame[name], f"{key}.label", where)
        flags[name] = columns.to_text(frame[name]).str.lower().map(FLAGS)
        if (wrong := flags[name].isna()).any():
            row: Any = wrong.idxmax()
            raise DataError(
                f"{key}.label: row {row + 1} of {where} has '{frame[name][row]}' in column '{name}', "
                f"expected 0 or 1 ({wrong.sum()} of {len(wrong)} rows)"
            )
    chosen = pd.DataFrame(flags).to_numpy(dtype=bool)
    names = np.array(list(flags), dtype=object)
    return pd.Series([names[row].tolist() for row in chosen], index=frame.index, dtype=object)


def _from_cells(frame: pd.DataFrame, task: Task, key: str, where: str) -> pd.Series:
    """Return labels from the cells of a column: lists, lists written as text, or texts with a separator."""
    stored = frame[str(task.label)]
    missing = stored.map(_missing)
    if missing.any():
        none = " For texts with none of the labels, write []."
        raise DataError(columns.unlabelled_message(missing, stored, task, key, where) + none)
    bracketed = stored.map(lambda cell: isinstance(cell, str) and BRACKETS.fullmatch(cell) is not None)
    try:
        listed = stored.astype(object).where(~bracketed, columns.parse_lists(stored[bracketed]))
    except ValueError as error:
        raise DataError(f"{key}.label: {where}: {error} in column '{task.label}'") from None
    separator = getattr(task, "separator", None)  # which a plugin's kind may lack
    parts = {} if separator else _joined(listed, task, key, where)
    sets = []
    for row, cell, written_as in zip(frame.index, listed, stored, strict=True):
        try:
            sets.append(_names(cell, _items(cell, separator, parts)))
        except ValueError as error:
            place = f"row {row + 1} of {where}"
            raise DataError(f"{key}.label: {place} has {shown(written_as)}, {error}") from None
    return pd.Series(sets, index=frame.index, dtype=object)


def _joined(listed: pd.Series, task: Task, key: str, where: str) -> dict[str, list[str]]:
    """Return `split_names` of the names in texts; DataError if it is not clear which are several labels."""
    texts = listed[listed.map(lambda cell: isinstance(cell, str))]
    lists = listed.drop(texts.index).map(lambda cell: list(cell) if isinstance(cell, LISTS) else [cell])
    try:
        whole = {as_text(name) for names in (*lists, task.labels or ()) for name in names}
        return split_names({name for cell in texts.unique() for name in _items(cell)}, whole)
    except Joined as error:
        name, separator = error.name, error.separator
    row: Any = texts.map(lambda cell: name in _items(cell)).idxmax()
    raise DataError(
        f"{key}.label: row {row + 1} of {where} has {shown(name)}, which looks like several labels with "
        f"'{separator}' between them, but not all of them are labels elsewhere; to split such cells, set "
        f"{key}.separator to '{separator}', to keep them whole, to '{SEPARATOR}'"
    )


def _missing(cell: Any) -> bool:
    """Return whether a cell has neither a label nor an empty list."""
    return not isinstance(cell, LISTS) and (pd.isna(cell) or not str(cell).strip())


def _items(
    cell: Any, separator: str | None = None, parts: Mapping[str, list[str]] | None = None
) -> list[Any]:
    """Return the items of a list, or the names in a text, some of which have `parts`."""
    if isinstance(cell, LISTS):
        return list(cell)
    text, separator = str(cell).strip(), separator or SEPARATOR
    items = text.split() if separator.isspace() else text.removesuffix(separator).split(separator)
    return [part for name in map(as_text, items) for part in (parts or {}).get(name, [name])]


def _names(cell: Any, items: list[Any]) -> list[str]:
    """Return the `items` of a cell as labels; raise ValueError with a clause if they are not names."""
    if any(isinstance(item, (*LISTS, dict, bytes)) for item in items):
        raise ValueError("expected a list of names")
    if any(map(_missing, items)):
        raise ValueError("of which a label is empty")
    if isinstance(cell, str) and cell.lstrip(' "').startswith("["):
        raise ValueError("which is not a list")
    names = list(map(as_text, items))
    if repeated := [name for name, times in Counter(names).items() if times > 1]:
        hint = "; for 0 and 1, name a column for each label" if {*names} <= {*FLAGS} else ""
        raise ValueError(f"with '{repeated[0]}' twice, expected each label once{hint}")
    return names


def _check(sets: pd.Series, valid: Sequence[str], key: str, where: str, what: str) -> None:
    """Raise DataError if a label is not `valid`; the message calls the valid ones `what`."""
    known = {*valid}
    unknown = {row: name for row, names in sets.items() for name in names if name not in known}
    columns.check_labels(pd.Series(unknown, dtype=object).head(1), list(valid), key, where, what)


LABELS_DATA = LabelSets()
