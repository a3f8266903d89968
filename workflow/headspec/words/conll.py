"""Sentences in files with a line for each word: CoNLL-U, and columns as in the CoNLL shared tasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from headspec.errors import DataError

ENDINGS = CONLLU, COLUMNS = ".conllu", ".conll"
#: the columns of CoNLL-U (universaldependencies.org/format.html) after the number of the word
FIELDS = ("words", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
#: column with the number of a sentence's first line, for errors, and with its name
LINE, NAME = "#line", "#name"
DOCUMENT = "-DOCSTART-"


class Sentence(NamedTuple):
    """Lines of words of a file, with their numbers from 1."""

    name: str | None
    lines: list[tuple[int, str]]


def names(path: Path, key: str) -> list[str]:
    """The names of the columns: those of CoNLL-U, or numbers from 1."""
    if path.suffix.lower() == CONLLU:
        return [*FIELDS, LINE, NAME]
    first = next(sentences(path, key), None)
    return [*map(str, range(1, len(first.lines[0][1].split()) + 1)), LINE, NAME] if first else []


def read(path: Path, key: str) -> tuple[pd.DataFrame, dict[str, int]]:
    """A row for each sentence, with a list of texts in each column.

    Multi-word tokens and empty nodes of CoNLL-U are left out. The few rules of these formats are written
    here, because libraries that parse all of CoNLL-U take ten times as long, and every planning reads files.

    Parameters
    ----------
    key : config key of the file, for errors

    Returns
    -------
    frame : columns `names`
    counts : numbers of what is left out, of CoNLL-U

    Raises
    ------
    DataError
        The file cannot be read, or a line has another number of columns, or of its word.
    """
    is_conllu, columns = path.suffix.lower() == CONLLU, names(path, key)[:-2]
    counts = {"multiword_tokens": 0, "empty_nodes": 0} if is_conllu else {}
    rows = []
    for name, lines in sentences(path, key):
        words: list[list[str]] = []
        for number, line in lines:
            fields = line.split("\t") if is_conllu else line.split()
            expected = len(columns) + is_conllu
            if len(fields) != expected:
                kind = "CoNLL-U has ten, separated by tabs" if is_conllu else f"the first has {expected}"
                raise DataError(f"{key}: line {number} of {path.name} has {len(fields)} columns; {kind}")
            if is_conllu:
                if "-" in fields[0] or "." in fields[0]:
                    counts["multiword_tokens" if "-" in fields[0] else "empty_nodes"] += 1
                    continue
                if fields[0] != str(len(words) + 1):
                    raise DataError(
                        f"{key}: line {number} of {path.name} has word number '{fields[0]}', "
                        f"expected {len(words) + 1}"
                    )
            words.append(fields[is_conllu:])
        by_column = map(list, zip(*words, strict=True)) if words else ([] for _ in columns)
        rows.append([*by_column, lines[0][0], name])
    return pd.DataFrame(rows, columns=[*columns, LINE, NAME]), counts


def sentences(path: Path, key: str) -> Iterator[Sentence]:
    """The sentences of a file, which empty lines end; comments and marks of documents are left out."""
    is_conllu, name, lines = path.suffix.lower() == CONLLU, None, []
    try:
        with open(path, encoding="utf-8-sig") as file:
            for number, line in enumerate([*file, "\n"], 1):
                line = line.rstrip("\r\n")
                if is_conllu and line.startswith("#"):
                    label, _, value = line[1:].partition("=")
                    name = value.strip() if label.strip() == "sent_id" else name
                elif line.strip() and not line.startswith(DOCUMENT):
                    lines.append((number, line))
                elif lines:
                    yield Sentence(name, lines)
                    name, lines = None, []
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{key}: {path.name} cannot be read as UTF-8 text ({error})") from None
