"""Sentences for finding the roles of heads, with or without dependency trees, and checks of trees."""

from __future__ import annotations

import graphlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from headspec.config.sources import locate
from headspec.data import characters
from headspec.data.sources import split_files
from headspec.data.sources.columns import list_items, parse_lists
from headspec.data.sources.formats import conll, registry
from headspec.data.sources.formats.options import Options
from headspec.data.sources.hub import hub_dataset
from headspec.errors import DataError, listing, nearest
from headspec.tables import INT, TEXT, Schema
from headspec.text_values import as_text

if TYPE_CHECKING:
    from headspec.config.study import Study


DIGITS = 9  # maximum, of a word number
MISSING = (None, "", "_", "None", "nan")  # stands for a missing head in tables


def tree_problem(words: list[Any], heads: list[Any], relations: list[Any]) -> str | None:
    """Explain why heads (from 1, or 0 for the root) are not a tree with one root; None if they are."""
    n = len(words)
    if not n:
        return "it has no words"
    if not len(heads) == len(relations) == n:
        return f"it has {n} words, {len(heads)} heads and {len(relations)} relations"
    for number, (word, head, relation) in enumerate(zip(words, heads, relations, strict=True), 1):
        if word in (None, ""):
            return f"word {number} is empty"
        if not isinstance(word, str):
            return f"word {number} ({word}) is not text"
        if head in MISSING:
            return f"word {number} ('{word}') has no head"
        if not str(head).isdecimal() or len(str(head)) > DIGITS or int(head) > n:
            return f"word {number} ('{word}') has head {head}, expected 0 (the root) to {n}"
        if relation in MISSING:
            return f"word {number} ('{word}') has no relation"
        if not isinstance(relation, str):
            return f"word {number} ('{word}') has a relation that is not text: {relation}"
    above = {number: int(head) for number, head in enumerate(heads, 1)}
    roots = [number for number, head in above.items() if head == 0]
    if len(roots) > 1:
        return f"it has {len(roots)} roots, words {listing(roots)}"
    try:  # without a root, there is a cycle
        graphlib.TopologicalSorter({number: [head] for number, head in above.items()}).prepare()
    except graphlib.CycleError as error:
        cycle = " -> ".join(map(str, reversed(error.args[1])))
        return f"{'' if roots else 'it has no root; '}the heads of words {cycle} form a cycle"
    return None


TREEBANK = Schema(
    {"sentence": INT, "name": TEXT, "words": pa.list_(TEXT), "head": pa.list_(INT),
     "relation": pa.list_(TEXT)},
    keys=1,
    paths=("atlas/treebank.parquet",),
    about={
        "name": "its name in the treebank, or the task whose text it is",
        "words": "syntactic words",
        "head": "number of each word's head, from 1; 0 for the root; null without trees",
        "relation": "of each word to its head; null without trees",
    },
)  # fmt: skip

KEY = "atlas.treebank"
FEWEST = 50  # sentences, to find roles
SHOWN = 3  # problems in a message


def read_treebank(settings: Any) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return the sentences of a treebank (`atlas.treebank`) as table 'treebank', and counts.

    In a table, each row is a sentence; columns hold lists or, in CSV and TSV, text split at spaces. Counts
    are of sentences, words, and CoNLL-U's multi-word tokens and empty nodes, which are left out. Raises
    DataError if data cannot be read, have fewer than `FEWEST` sentences, or have one that is not a tree.
    """
    source = str(settings.source)
    paths = files(settings)
    if paths and all(map(conll.is_conllu, paths)):
        documents = [conll.read_sentences(path, f"{KEY}.source") for path in paths]
        frame = pd.concat([document for document, _ in documents], ignore_index=True)
        counts = {name: sum(counts[name] for _, counts in documents) for name in documents[0][1]}
        names = frame[conll.NAME].fillna("line " + frame[conll.LINE].astype(str))
        frame = frame[["words", "head", "deprel"]].set_axis(["words", "head", "relation"], axis="columns")
        frame.insert(0, "name", names)
    else:
        frame, counts = _table(settings, paths), {}
    _check_number(frame, f"{KEY}.source: '{source}' has")
    _check(frame, source)
    frame["head"] = [[int(head) for head in heads] for heads in frame["head"]]
    frame.insert(0, "sentence", np.arange(len(frame)))
    return frame, {"sentences": len(frame), "words": int(frame["words"].str.len().sum()), **counts}


def check_treebank(study: Study) -> None:
    """Raise DataError if the treebank of `study` cannot be read, unless it is on the hub."""
    if study.atlas.treebank and not study.atlas.treebank.source.startswith("hub:"):
        read_treebank(study.atlas.treebank)


def files(settings: Any) -> list[Path]:
    """Return the treebank's files: the source, or the table of the split in a folder; none on the hub."""
    if str(settings.source).startswith("hub:"):
        return []
    path = locate(str(settings.source), f"{KEY}.source")
    tables = split_files.find_splits(path, f"{KEY}.source", settings.split)
    split = split_files.match_validation(settings.split, tables, f"{KEY}.split")
    if split is None:
        raise _no_split(settings, tables)
    return list(tables[split].files)


def from_texts(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the table 'treebank' of distinct sentences in tables 'data', without trees.

    One-word sentences are left out. Raises DataError for fewer than `FEWEST` sentences.
    """
    rows: dict[tuple[str, ...], str] = {}
    for task, table in tables.items():
        for text in pd.concat([table["text_a"], table["text_b"].dropna()]):
            for sentence in characters.sentences(text):
                if len(words := tuple(characters.words(sentence))) > 1:
                    rows.setdefault(words, task)
    columns: dict[str, Any] = {"name": list(rows.values()), "words": list(map(list, rows))}
    frame = pd.DataFrame({"sentence": np.arange(len(rows)), **columns, "head": None, "relation": None})
    _check_number(frame, f"{KEY}: without one, sentences are those of the validation texts, which have")
    return frame


def _check_number(frame: pd.DataFrame, where: str) -> None:
    if len(frame) < FEWEST:
        raise DataError(f"{where} {len(frame)} sentences; expected at least {FEWEST}, to find roles of heads")


def _no_split(settings: Any, present: Iterable[str]) -> DataError:
    return DataError(
        f"{KEY}.split: '{settings.source}' has no split '{settings.split}'; it has {listing(present)}."
        f"{nearest(settings.split, present)}"
    )


def _table(settings: Any, paths: list[Path]) -> pd.DataFrame:
    """Return sentences from a table with columns of lists for words, heads and relations."""
    columns = {"words": settings.words, "head": settings.head, "relation": settings.relation}

    def needed(present: list[str]) -> list[str]:
        missing = [
            f"{KEY}.{name}: no column '{column}' in {settings.source}; it has {listing(present)}."
            f"{nearest(column, present)}"
            for name, column in columns.items()
            if column not in present
        ]
        if missing:
            raise DataError("\n".join(missing))
        names = [name for name in ("sentence_id", "sent_id") if name in present]
        return list(dict.fromkeys([*columns.values(), *names[:1]]))

    if not paths:
        dataset = hub_dataset(settings.source, settings.subset, f"{KEY}.source")
        if settings.split not in dataset:
            raise _no_split(settings, dataset)
        dataset = dataset[settings.split]
        stored = dataset.select_columns(needed(dataset.column_names)).to_pandas()
    else:
        stored = registry.table(paths, needed, Options(f"{KEY}.source"))
    named = [column for column in stored if column not in columns.values()]
    try:
        lists = {name: parse_lists(stored[column]) for name, column in columns.items()}
    except ValueError as error:
        raise DataError(f"{KEY}.source: {settings.source}: {error}") from None
    frame = pd.DataFrame({name: column.map(_items) for name, column in lists.items()})
    rows = [f"row {row}" for row in range(1, len(stored) + 1)]
    frame.insert(0, "name", stored[named[0]].astype("str") if named else rows)
    return frame


def _items(cell: Any) -> list[Any]:
    """Return the items of a list, or of text split at spaces."""
    if isinstance(cell, str):
        return list_items(cell)
    items = list(cell) if isinstance(cell, (list, tuple, np.ndarray)) and np.ndim(cell) == 1 else []
    items = [str(item) if isinstance(item, (np.ndarray, list, dict)) else item for item in items]
    return [as_text(item) if isinstance(item, float) else item for item in items]  # missing heads make floats


def _check(frame: pd.DataFrame, source: str) -> None:
    """Raise DataError if a sentence is not a tree."""
    rows = zip(frame["name"], frame["words"], frame["head"], frame["relation"], strict=True)
    wrong = [
        (number, name, clause)
        for number, (name, *columns) in enumerate(rows, 1)
        if (clause := tree_problem(*columns))
    ]
    if wrong:
        shown = "; ".join(f"sentence {number} ({name}): {clause}" for number, name, clause in wrong[:SHOWN])
        more = "; ..." if len(wrong) > SHOWN else ""
        raise DataError(
            f"{KEY}.source: {len(wrong)} of {len(frame)} sentences of '{source}' are not dependency trees: "
            f"{shown}{more}"
        )
