"""Sentences in files with a line per word; libraries that parse CoNLL-U in full take ten times as long."""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from headspec.data.sources import text_files
from headspec.data.sources.formats.options import NOTES, Choice, Options, filled
from headspec.errors import DataError

CONLLU, COLUMNS = ".conllu", ".conll"
#: columns of CoNLL-U (universaldependencies.org/format.html) after the word number
FIELDS = ("words", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
#: columns in which every word has a value
REQUIRED = ("upos", "head", "deprel")
#: columns for a sentence's first line number, for errors, and its name
LINE, NAME = "#line", "#name"
#: lines of column files that start and end documents
DOCUMENT = re.compile(r"-DOCSTART-|#(begin|end) document")
#: lines of CoNLL-U that are not words: name of their count, and their number, such as 1-2 or 3.1
NO_WORDS = {"multiword_tokens": re.compile(r"\d+-\d+"), "empty_nodes": re.compile(r"\d+\.\d+")}
#: number of columns of CoNLL-U, including the word number
WIDTH = len(FIELDS) + 1

#: a line's number, from 1, and its cells
Line = tuple[int, list[str]]


class Sentence(NamedTuple):
    """Lines of words, numbered from 1; in column files, also the lines before them that start with ``# ``."""

    name: str | None
    lines: list[tuple[int, str]]
    above: Sequence[tuple[int, str]] = ()


def names(path: Path, options: Options) -> list[str]:
    """Return the columns of CoNLL-U, or numbers from 1, with `LINE` and `NAME`; none without sentences."""
    lines = text_files.lines(text_files.read_start(path, options.encoding), f"{options.key}: {path.name}")
    conllu = _holds_conllu(path, lines)
    first = next((sentence for sentence in sentences(lines, conllu) if sentence.lines), None)
    return [*_places(path, conllu, len(_cells(first.lines)[0][1])), LINE, NAME] if first else []


def read(path: Path, options: Options, choice: Choice) -> pd.DataFrame:
    return read_sentences(path, options.key, options.encoding, choice)[0]


def is_conllu(path: Path, encoding: str | None = None) -> bool:
    """Return whether a file has the suffix of CoNLL-U, or starts with a sentence in this format."""
    if text_files.ending(path) == CONLLU:
        return True
    try:
        return _holds_conllu(path, text_files.lines(text_files.read_start(path, encoding), path.name))
    except (DataError, OSError, UnicodeError):
        return False  # reading the file will say why


def read_sentences(
    path: Path, key: str, encoding: str | None = None, choice: Choice = list
) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return a row per sentence, with lists of texts, and counts of lines left out, only of CoNLL-U.

    Raises DataError if the file cannot be read, a line has the wrong number of columns or word number, or
    sentences differ in their number of columns (one per predicate, say) and a chosen column is affected.
    """
    try:
        text = text_files.read_text(path, key, encoding)
    except OSError as error:
        raise DataError(f"{key}: {path.name} cannot be read ({error})") from None
    lines = text_files.lines(text, f"{key}: {path.name}")
    conllu = _holds_conllu(path, lines)
    parsed = list(sentences(lines, conllu))
    worded = next((sentence.lines for sentence in parsed if sentence.lines), [])
    tabs = conllu or (bool(worded) and "\t" in worded[0][1])
    cells = [_cells(sentence.lines, tabs) for sentence in parsed]
    notes = [] if conllu else _with_signs(parsed, cells, tabs, path)
    parsed = [sentence for sentence, words in zip(parsed, cells, strict=True) if words]
    cells = [words for words in cells if words]
    widths = [WIDTH] * len(cells) if conllu else _widths(cells)
    file = f"{key}: line {{}} of {path.name} has"
    words = [_words(lines, width, conllu, file) for lines, width in zip(cells, widths, strict=True)]
    places = _places(path, conllu, max(widths, default=0))
    chosen = choice([*places, LINE, NAME])
    _check_shared([places[name] for name in chosen if name in places], cells, widths, file)
    columns: dict[str, list[Any]] = {LINE: [lines[0][0] for lines in cells], NAME: [s.name for s in parsed]}
    columns |= {
        name: [[word[at] for word in each] for each in words] for name, at in places.items() if name in chosen
    }
    first = [line[0] for lines in cells for _, line in lines] if conllu else []
    counts = {name: sum(map(bool, map(pattern.fullmatch, first))) for name, pattern in NO_WORDS.items()}
    frame = pd.DataFrame({name: columns[name] for name in chosen})
    frame.attrs[NOTES] = notes
    return frame, counts if conllu else {}


def _with_signs(parsed: Sequence[Sentence], cells: list[list[Line]], tabs: bool, path: Path) -> list[str]:
    """Restore words that are a number sign at the start of sentences or all of one, and return notes.

    Such a line looks like a comment, but has the columns of its sentence, or of the first one, and other
    words end in the same cell.
    """
    known = {line[-1] for sentence in cells for _, line in sentence}
    usual = next((len(words[0][1]) for words in cells if words), 0)
    comments: list[tuple[int, str]] = []
    for sentence, words in zip(parsed, cells, strict=True):
        width = len(words[0][1]) if words else usual
        for number, line in reversed(_cells(sentence.above, tabs)):
            if line[0] != "#" or len(line) != width or width < 2:
                break
            if line[-1] not in known:
                comments.append((number, " ".join(line)))
                break
            words.insert(0, (number, line))
    if not comments:
        return []
    number, first = min(comments)
    return [
        f"{len(comments)} lines of {path.name} that begin with # are taken for comments, though they have as "
        f"many columns as words; the first is line {number}, '{first}'"
    ]


def sentences(lines: Iterable[str], conllu: bool) -> Iterator[Sentence]:
    """Yield sentences, separated by empty lines; in column files, comments only precede the first word.

    In these, lines that start with ``# `` may also stand alone, as a sentence without words.
    """
    name: str | None = None
    words: list[tuple[int, str]] = []
    above: list[tuple[int, str]] = []
    for number, line in enumerate(itertools.chain(lines, [""]), 1):
        if conllu and line.startswith("#"):
            label, _, value = line[1:].partition("=")
            name = value.strip() if label.strip() == "sent_id" else name
        elif not conllu and line.startswith("# ") and not words:
            above.append((number, line))
        elif line.strip() and (conllu or not DOCUMENT.match(line)):
            words.append((number, line))
        elif words or above:
            yield Sentence(name, words, above)
            name, words, above = None, [], []


def _holds_conllu(path: Path, lines: Iterable[str]) -> bool:
    """Return whether a file has the suffix of CoNLL-U, or a first sentence with ten columns, numbered."""
    if text_files.ending(path) == CONLLU:
        return True
    cells = [line for _, line in _cells(next(sentences(lines, True), Sentence(None, [])).lines, True)]
    numbers = [line[0] for line in cells if not any(p.fullmatch(line[0]) for p in NO_WORDS.values())]
    ten = all(len(line) >= WIDTH and not any(line[WIDTH:]) for line in cells)
    return ten and bool(numbers) and numbers == [str(i) for i in range(1, len(numbers) + 1)]


def _places(path: Path, conllu: bool, width: int) -> dict[str, int]:
    """Return the position of each column in a line; CoNLL-U with another suffix also has numbered names."""
    numbers = {str(place + 1): place for place in range(WIDTH if conllu else width)}
    fields = {name: place for place, name in enumerate(FIELDS, 1)} if conllu else {}
    return fields | (numbers if text_files.ending(path) != CONLLU else {})


def _cells(lines: Sequence[tuple[int, str]], tabs: bool | None = None) -> list[Line]:
    """Return the cells of lines, by default separated by tabs if the first line has one.

    Non-ASCII spaces are part of cells.
    """
    tabs = bool(lines) and "\t" in lines[0][1] if tabs is None else tabs
    return [
        (number, [cell.strip(" ") for cell in line.split("\t")] if tabs else re.split(" +", line.strip(" ")))
        for number, line in lines
    ]


def _widths(cells: Sequence[list[Line]]) -> list[int]:
    """Return the number of columns of each sentence, the same for all if possible.

    Lines may end in empty cells beyond the last column.
    """
    least = [max(filled(line) for _, line in sentence) for sentence in cells]
    most = [min(len(line) for _, line in sentence) for sentence in cells]
    if max(least, default=0) <= min(most, default=0):
        return [min(most, default=0)] * len(cells)
    first = [len(sentence[0][1]) for sentence in cells]
    return [high if low <= high else n for low, high, n in zip(least, most, first, strict=True)]


def _check_shared(
    places: Iterable[int], cells: Sequence[list[Line]], widths: Sequence[int], file: str
) -> None:
    """Raise DataError if a column is not at the same position in all sentences.

    If sentences have different numbers of columns, as in CoNLL-2012, all but the last of the shortest are
    shared. If only one-word sentences differ from the others, a space inside a word is likelier.
    """
    longer = {width for lines, width in zip(cells, widths, strict=True) if len(lines) > 1}
    if len({*widths}) > 1 and ((last := max(places, default=0)) >= min(widths) - 1 or len(longer) == 1):
        number, width = next(
            (lines[0][0], n) for lines, n in zip(cells, widths, strict=True) if n != widths[0]
        )
        raise DataError(
            f"{file.format(number)} {width} columns, but line {cells[0][0][0]} has {widths[0]}: column "
            f"{last + 1} may not be the same in all sentences"
        )


def _words(lines: Sequence[Line], width: int, conllu: bool, file: str) -> list[list[str]]:
    """Return the checked cells of a sentence's words; `file` starts messages, with a field for the line."""
    words: list[list[str]] = []
    for number, cells in lines:
        if not filled(cells) <= width <= len(cells):
            first = f"the first of its sentence has {len(lines[0][1])}"
            expected = "CoNLL-U has ten, separated by tabs" if conllu else first
            raise DataError(f"{file.format(number)} {len(cells)} columns; {expected}")
        if conllu and any(pattern.fullmatch(cells[0]) for pattern in NO_WORDS.values()):
            continue
        if conllu and cells[0] != str(len(words) + 1):
            raise DataError(f"{file.format(number)} word number '{cells[0]}', expected {len(words) + 1}")
        words.append(cells)
    return words
