"""Sentences in files with a line for each word: CoNLL-U, and columns as in the CoNLL shared tasks."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from headspec import text_files
from headspec.errors import DataError

ENDINGS = CONLLU, COLUMNS = ".conllu", ".conll"
#: the columns of CoNLL-U (universaldependencies.org/format.html) after the number of the word
FIELDS = ("words", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
#: those of them that say something of every word
REQUIRED = ("upos", "head", "deprel")
#: column with the number of a sentence's first line, for errors, and with its name
LINE, NAME = "#line", "#name"
#: lines of column files that begin and end documents
DOCUMENT = re.compile(r"-DOCSTART-|#(begin|end) document")


class Sentence(NamedTuple):
    """Lines of words of a file, with their numbers from 1."""

    name: str | None
    lines: list[tuple[int, str]]


def names(path: Path, key: str, encoding: str | None = None) -> list[str]:
    """The names of the columns: those of CoNLL-U, or numbers from 1."""
    if is_conllu(path):
        return [*FIELDS, LINE, NAME]
    with text_files.open_text(path, encoding) as file:
        first = next(sentences(_lines(file), False), None)
    return _names(first) if first else []


def is_conllu(path: Path) -> bool:
    return text_files.ending(path) == CONLLU


def read_sentences(path: Path, key: str, encoding: str | None = None) -> tuple[pd.DataFrame, dict[str, int]]:
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
    conllu = is_conllu(path)
    try:
        text = text_files.read_text(path, key, encoding)
    except OSError as error:
        raise DataError(f"{key}: {path.name} cannot be read ({error})") from None
    found = list(sentences(_lines(io.StringIO(text, newline="")), conllu))
    columns = list(FIELDS) if conllu else _names(found[0])[:-2] if found else []
    tabs = bool(found) and _tabs(found[0])
    counts = {"multiword_tokens": 0, "empty_nodes": 0} if conllu else {}
    rows = []
    for name, lines in found:
        words: list[list[str]] = []
        for number, line in lines:
            fields = line.split("\t") if conllu else _cells(line, tabs)
            expected = len(columns) + conllu
            if len(fields) != expected:
                kind = "CoNLL-U has ten, separated by tabs" if conllu else f"the first has {expected}"
                raise DataError(f"{key}: line {number} of {path.name} has {len(fields)} columns; {kind}")
            if conllu:
                if "-" in fields[0] or "." in fields[0]:
                    counts["multiword_tokens" if "-" in fields[0] else "empty_nodes"] += 1
                    continue
                if fields[0] != str(len(words) + 1):
                    raise DataError(
                        f"{key}: line {number} of {path.name} has word number '{fields[0]}', "
                        f"expected {len(words) + 1}"
                    )
            words.append(fields[conllu:])
        by_column = map(list, zip(*words, strict=True)) if words else ([] for _ in columns)
        rows.append([*by_column, lines[0][0], name])
    return pd.DataFrame(rows, columns=[*columns, LINE, NAME]), counts


def sentences(lines: Iterable[str], conllu: bool) -> Iterator[Sentence]:
    """The sentences of a file, which empty lines end; comments and marks of documents are left out.

    In columns, ``# `` before the first word of a sentence begins a comment, and after it is a word.

    Parameters
    ----------
    conllu : whether the file is CoNLL-U
    """
    name: str | None = None
    words: list[tuple[int, str]] = []
    for number, line in enumerate(itertools.chain(lines, [""]), 1):
        if conllu and line.startswith("#"):
            label, _, value = line[1:].partition("=")
            name = value.strip() if label.strip() == "sent_id" else name
        elif not conllu and line.startswith("# ") and not words:
            continue
        elif line.strip() and (conllu or not DOCUMENT.match(line)):
            words.append((number, line))
        elif words:
            yield Sentence(name, words)
            name, words = None, []


def _lines(file: Iterable[str]) -> Iterator[str]:
    return (line.rstrip("\r\n") for line in file)


def _names(first: Sentence) -> list[str]:
    return [*map(str, range(1, len(_cells(first.lines[0][1], _tabs(first))) + 1)), LINE, NAME]


def _tabs(first: Sentence) -> bool:
    """Whether tabs separate the columns of a file with this first sentence."""
    return "\t" in first.lines[0][1]


def _cells(line: str, tabs: bool) -> list[str]:
    """The cells of a line of columns; spaces other than that of ASCII are part of them."""
    return [cell.strip(" ") for cell in line.split("\t")] if tabs else re.split(" +", line.strip(" "))
