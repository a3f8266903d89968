"""The task that a file holds: its type, and the columns of its texts and labels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from headspec.data import anomalies, characters, joined_labels
from headspec.data.sources import text_files
from headspec.data.sources.columns import LISTS, NESTED, list_items, matching, nested, parse_lists
from headspec.data.sources.formats import conll
from headspec.errors import DataError, listing, nearest
from headspec.pipeline.commands.from_files import stored
from headspec.tasks.kinds.texts.label_cells import FLAGS
from headspec.tasks.registry import KINDS
from headspec.text_values import as_text

#: words for what a task predicts; columns with such a name come first
NAMED = ("label", "class", "score", "tag")
#: minimum words of a second text, on average, and as a share of those of the text with most
SECOND_WORDS, SECOND_SHARE = 3, 0.25
#: rows in which words are counted
SAMPLE = 200
#: sets of classes in which -1 is a class, not a missing label
SIGNS = ({"-1", "1"}, {"-1", "0", "1"})
#: label of a row without one, in GLUE's test sets; others have no letter or digit, such as - in SNLI
NO_LABEL = "-1"
#: type whose prompts are texts, followed by right and wrong answers
ANSWERS = "answer_pairs"
#: what a span says of its place
SPAN = {"start", "end"}
#: tag of a word that begins a span, or is in none (BIO)
BEGINS, OUTSIDE = "B-", "O"


@dataclass(frozen=True)
class Found:
    """A task in a file: name, keys, and other columns that could be its label, with numbers of values."""

    name: str
    keys: dict[str, Any]
    others: dict[str, int] = field(default_factory=dict)


def find(given: str) -> Found:
    """Return the task in a file or folder ``<path>``, or with the label in a column, ``<path>:<column>``.

    Raises DataError, with the file and its columns, if there is no such column, none with texts, or none that
    can be a label; also for texts without columns or classes, and for prompts and answers.
    """
    source, label = given, ""
    if not Path(given).expanduser().exists() and ":" in given.removeprefix("package:"):
        source, _, label = given.rpartition(":")
    held = stored.training_files(source)
    stem = Path(source).name if Path(source).is_dir() else text_files.uncompressed(Path(source)).stem
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{stem}-{label}" if label else stem).strip("-._")
    if held.layout != "tables":
        if label or held.layout not in ("folders", "classes"):
            raise DataError(
                f"{source}: has texts without columns, expected a table, or a folder for each class"
            )
        return Found(name, {"source": source, "type": "classification", "text_a": "text", "label": "label"})
    keys = stored.dialect(held, source)
    table = stored.columns(held, source, keys)
    if label and label not in table:
        raise DataError(
            f"{source}: no column '{label}'; it has {listing(table)}.{nearest(label, list(table))}"
        )
    keys = {"source": source} | keys
    usual = None if label else _by_defaults([*map(str, table)])
    if usual:
        return Found(name, keys | usual)
    if not label and prompts(table):
        raise DataError(
            f"{source}: holds prompts and answers, which a study has no task for; expected labels, or right "
            f"and wrong answers. A model's heads for them: headspec heads <model> {source}"
        )
    columns, others = _by_content(table, label, source)
    return Found(name, keys | columns, others)


def _by_defaults(present: Sequence[str]) -> dict[str, Any] | None:
    """Return the keys of the first type with default columns that are all present, ignoring case; or None."""
    for kind, about in KINDS.items():
        if not about.defaults:
            continue
        usual = {"text_a": "text", "label": "label", **about.defaults}
        if about.label_columns == 0:
            del usual["label"]
        own = {key: [column(name, present) for name in _listed(value)] for key, value in usual.items()}
        if all(all(names) for names in own.values()):
            keys = {key: names[0] if isinstance(usual[key], str) else names for key, names in own.items()}
            return {"type": kind} | keys | ({"prompt": "{text_a}"} if kind == ANSWERS else {})
    return None


def column(name: str, present: Sequence[str]) -> str | None:
    """Return the column with a name, or the only one that differs just in case or spaces; else None."""
    alike = [each for each in present if each.strip().casefold() == name]
    return matching(name, present) or (alike[0] if len(alike) == 1 else None)


def prompts(table: pd.DataFrame) -> list[str]:
    """Return the columns of prompts and answers of a table; none if it lacks one."""
    names = [column(name, [*map(str, table)]) for name in ("prompt", "answer")]
    return [name for name in names if name] if all(names) else []


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _by_content(table: pd.DataFrame, label: str, source: str) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the keys of a table of texts with labels, and other columns that could be the label.

    Raises DataError if no column has texts, or none can be a label.
    """
    texts = _texts(table.drop(columns=[label] if label else []))
    if not texts:
        raise DataError(f"{source}: no column has texts; it has {listing(table)}")
    rest = table.drop(columns=[*texts.values(), *({conll.LINE} & {*table})])
    types = {
        str(name): type_
        for name in ([label] if label else rest)
        if (type_ := _type(table[texts["text_a"]], table[name], bool(label)))
    }
    if not types:
        tried = f"'{label}' cannot be" if label else f"of {listing(rest)}, none can be"
        raise DataError(
            f"{source}: {tried} a label for the texts in {listing(texts.values())}; expected a column "
            "with at least two values, most of which repeat, or of numbers"
        )
    values = {name: _values(column) for name, column in table.items() if name in types}
    flags = [name for name in types if {value.casefold() for value in values[name]} <= {*FLAGS}]
    if 1 < len(flags) == len(types):
        return {**texts, "type": "labels", "label": flags}, {}
    chosen, *others = sorted(types, key=lambda name: (not _is_named(name), len(values[name])))
    keys: dict[str, Any] = {**texts, "type": types[chosen], "label": chosen}
    if "text_b" in KINDS[types[chosen]].unused:
        keys.pop("text_b", None)
    if types[chosen] == "classification" and values[chosen] in SIGNS:
        keys["labels"] = sorted(values[chosen], key=int)  # studies take -1 for a class only if it is named
    if missing := _missing(table[chosen], types[chosen]):
        keys["unlabelled"] = missing
    return keys, {name: len(values[name]) for name in others}


def _is_named(column: str) -> bool:
    return any(word in column.casefold() for word in NAMED)


def _texts(table: pd.DataFrame) -> dict[str, str]:
    """Return the columns of texts: the default ones, or those with most words."""
    present = list(map(str, table))
    if text := matching("text", present):
        return {"text_a": text}
    words = {name: _words(table[name]) for name in present}
    most, _ = max(words.values(), default=(0.0, 0))
    if most < 1:
        return {}
    first = "text_a" if "text_a" in present else max(words, key=lambda name: words[name])
    second = [
        name
        for name, (n, _) in words.items()
        if name != first
        and n >= max(SECOND_WORDS, SECOND_SHARE * most)
        and _is_text(table[first], table[name])
    ]
    if "text_a" in present or len(second) != 1:
        return {"text_a": first} | ({"text_b": "text_b"} if "text_b" in words else {})
    both = sorted([first, *second], key=present.index)
    return {"text_a": both[0], "text_b": both[1]}


def _words(column: pd.Series) -> tuple[float, int]:
    """Return the mean number of words of texts, or items of lists, and how many differ; 0 for numbers."""
    cells = column.dropna().head(SAMPLE)
    parsed = [items for cell in cells if (items := _items(cell)) is not None]
    if len(parsed) < len(cells):
        parsed = [characters.spaced_words(cell) if isinstance(cell, str) else [] for cell in cells]
        if pd.to_numeric(cells.astype(str), errors="coerce").notna().all():
            parsed = []
    return sum(map(len, parsed)) / max(len(parsed), 1), len({str(word) for words in parsed for word in words})


def _items(cell: Any) -> list[Any] | None:
    """Return the items of a list, or of a text that represents one; None for other cells."""
    value = nested(cell)
    return list(value) if isinstance(value, LISTS) else None


def _is_text(first: pd.Series, column: pd.Series) -> bool:
    """Return whether a column holds texts, most of which differ, and annotates no words of the first ones."""
    annotated = column.map(lambda cell: nested(cell) is not None).any() or _per_word(first, _split(column))
    return not annotated and len(_values(column)) > len(column) / 2


def _split(column: pd.Series) -> list[list[str] | None]:
    """Return the parts of each text between spaces."""
    return [cell.split() if isinstance(cell, str) else None for cell in column]


def _values(column: pd.Series) -> set[str]:
    """Return the different values of a column as text, without missing ones."""
    return {as_text(cell) for cell in column.dropna() if not isinstance(cell, NESTED)} - {""}


def _type(texts: pd.Series, column: pd.Series, chosen: bool) -> str | None:
    """Return the type of task that a column is the label of; None if it cannot be one.

    A column with other values in most rows is taken only if it is `chosen`.
    """
    present = column.dropna()
    if len(present) and present.map(lambda cell: nested(cell) is not None).all():
        lists = [*present.map(_items)]
        if any(isinstance(item, dict) and item.keys() >= SPAN for items in lists for item in items or ()):
            return "spans"
        return _tags(lists) if _per_word(texts, lists) else "labels"
    values, words = _values(column), _split(column)
    if _per_word(texts, words):
        return _tags(words)
    if len(values) < 2:
        return None
    numbers = pd.to_numeric(pd.Series(sorted(values)), errors="coerce")
    if numbers.notna().all():
        if (numbers % 1 != 0).any():
            return "regression"
        counted = len(values) == len(column) and not chosen  # such as numbers of rows
        return None if counted else "regression" if len(values) > anomalies.NUMBERS else "classification"
    if joined_labels.composed(values):
        return "labels"
    return "classification" if chosen or len(values) <= len(column) / 2 else None


def _per_word(texts: pd.Series, lists: Sequence[list[Any] | None]) -> bool:
    """Return whether all lists, some of which have several items, have one for each word of a text."""
    try:
        words = [len(list_items(cell)) for cell in parse_lists(texts)]
    except ValueError:
        return False
    sizes = [-1 if items is None else len(items) for items in lists]
    return sizes == words and max(sizes) > 1


def _tags(lists: Sequence[list[Any] | None]) -> str:
    tags = {str(tag) for items in lists for tag in items or ()}
    spans = any(tag.startswith(BEGINS) for tag in tags) and all(
        tag == OUTSIDE or tag[1:2] == "-" for tag in tags
    )
    return "spans" if spans else "tags"


def _missing(column: pd.Series, type_: str) -> list[str]:
    """Return the values of a column that stand for no label."""
    found = [""] if (column.isna() | (column.astype(str).str.strip() == "")).any() else []
    if type_ == "classification":
        values = _values(column)
        found += [NO_LABEL] * (NO_LABEL in values and values not in SIGNS)
        blank = {value for value in values if not any(map(str.isalnum, value))}
        found += blank if len(blank) == 1 and len(values) > 2 else []
    return found


def names(found: Sequence[Found]) -> Iterator[str]:
    """Yield a distinct name for each task."""
    used: set[str] = set()
    for each in found:
        name, number = each.name or "task", 2
        while name in used:
            name, number = f"{each.name or 'task'}-{number}", number + 1
        used.add(name)
        yield name
