"""Sentences in files with a line per word; libraries that parse all of CoNLL-U take ten times as long."""

import io
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from headspec import text_files
from headspec.data.sources.formats.options import Choice, Options
from headspec.errors import DataError

CONLLU, COLUMNS = ".conllu", ".conll"
#: the columns of CoNLL-U (universaldependencies.org/format.html) after the number of the word
FIELDS = ("words", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
#: columns in which every word has a value
REQUIRED = ("upos", "head", "deprel")
#: columns with a sentence's first line number, for errors, and its name
LINE, NAME = "#line", "#name"
#: lines of column files that begin and end documents
DOCUMENT = re.compile(r"-DOCSTART-|#(begin|end) document")


class Sentence(NamedTuple):
    """Lines of words in a file, with their numbers from 1."""

    name: str | None
    lines: list[tuple[int, str]]


def names(path: Path, options: Options) -> list[str]:
    """Return the columns of CoNLL-U, or numbers from 1."""
    if is_conllu(path):
        return [*FIELDS, LINE, NAME]
    with text_files.open_text(path, options.encoding) as file:
        first = next(sentences(file, False), None)
    return [*_numbers(first), LINE, NAME] if first else []


def read(path: Path, options: Options, choice: Choice) -> pd.DataFrame:
    frame, _ = read_sentences(path, options.key, options.encoding)
    return frame[choice(frame.columns.tolist())]


def is_conllu(path: Path) -> bool:
    return text_files.ending(path) == CONLLU


def read_sentences(path: Path, key: str, encoding: str | None = None) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return a row per sentence, with lists of texts, and counts of CoNLL-U lines left out.

    Raise DataError if the file cannot be read, or a line has a wrong number of columns or of its word.
    """
    conllu = is_conllu(path)
    try:
        text = text_files.read_text(path, key, encoding)
    except OSError as error:
        raise DataError(f"{key}: {path.name} cannot be read ({error})") from None
    found = list(sentences(io.StringIO(text, newline=""), conllu))
    columns = list(FIELDS) if conllu else _numbers(found[0]) if found else []
    tabs = bool(found) and "\t" in found[0].lines[0][1]
    counts = {"multiword_tokens": 0, "empty_nodes": 0} if conllu else {}
    rows = []
    for name, lines in found:
        words: list[list[str]] = []
        for number, line in lines:
            fields = line.split("\t") if conllu else _cells(line, tabs)
            where = f"{key}: line {number} of {path.name} has"
            if len(fields) != len(columns) + conllu:
                expected = "CoNLL-U has ten, separated by tabs" if conllu else f"the first has {len(columns)}"
                raise DataError(f"{where} {len(fields)} columns; {expected}")
            if conllu and ("-" in fields[0] or "." in fields[0]):
                counts["multiword_tokens" if "-" in fields[0] else "empty_nodes"] += 1
                continue
            if conllu and fields[0] != str(len(words) + 1):
                raise DataError(f"{where} word number '{fields[0]}', expected {len(words) + 1}")
            words.append(fields[conllu:])
        by_column = map(list, zip(*words, strict=True)) if words else ([] for _ in columns)
        rows.append([*by_column, lines[0][0], name])
    return pd.DataFrame(rows, columns=[*columns, LINE, NAME]), counts


def sentences(lines: Iterable[str], conllu: bool) -> Iterator[Sentence]:
    """Yield sentences, which empty lines end; in column files, comments are only before the first word."""
    name: str | None = None
    words: list[tuple[int, str]] = []
    for number, ended in enumerate(itertools.chain(lines, [""]), 1):
        line = ended.rstrip("\r\n")
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


def _numbers(first: Sentence) -> list[str]:
    """Return names of the columns of a file with this first sentence."""
    line = first.lines[0][1]
    return [str(number) for number, _ in enumerate(_cells(line, "\t" in line), 1)]


def _cells(line: str, tabs: bool) -> list[str]:
    """Return the cells of a line of columns; non-ASCII spaces belong to them."""
    return [cell.strip(" ") for cell in line.split("\t")] if tabs else re.split(" +", line.strip(" "))
