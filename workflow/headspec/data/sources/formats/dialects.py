"""Rows of delimited cells, and how the writer of a file quoted them.

Programs quote cells with a delimiter, a quote or a line break, or all cells of a column. They double quotes
inside, or escape them with a backslash; some quote nothing. The dialect of a file is the one that explains
it: rows have the same number of cells, and every quote belongs to a cell that needed quoting.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from headspec.data.sources.formats.options import filled
from headspec.errors import shown

#: private-use characters, which replace quoted cells while rows are split
PRIVATE = range(0xE000, 0xF900)
#: reasons to quote a cell, besides delimiters and quotes; spreadsheets quote commas in TSV, too
REASON = re.compile(r"[,\r\n]|^\s|\s$")


class Quoted(str):
    """A cell that was in quotes."""


class Dialect(NamedTuple):
    """The quote character, if any, and whether a backslash escapes the next character."""

    quote: str
    backslash: bool

    def escape(self, delimiter: str) -> re.Pattern[str]:
        """Return a pattern for a backslash and a character that would be special without it."""
        return re.compile(rf"\\([{re.escape(delimiter + self.quote)}\\\n])")

    def occurs(self, text: str, delimiter: str) -> bool:
        """Return whether a cell in a text starts with the quote, or a character is escaped."""
        opening = re.compile(rf"(?<![^{re.escape(delimiter)}\n]) *{self.quote}")
        return bool((self.escape(delimiter) if self.backslash else opening).search(text))


RFC4180, PLAIN = Dialect('"', False), Dialect("", False)
#: dialects with quotes, the most common first
DIALECTS = (RFC4180, Dialect('"', True), Dialect("'", False), Dialect("'", True))


@dataclass
class Rows:
    """The rows of a text in a dialect, and the lines on which they start.

    `problem` says why the dialect does not explain the text, at a `line`; `left_over` tells whether there is
    a quote inside an unquoted cell; `broken` is the line of the first row with line breaks, or 0.
    """

    dialect: Dialect
    cells: list[list[str]]
    lines: list[int]
    problem: str = ""
    line: int = 0
    left_over: bool = False
    broken: int = 0

    def fit(self, width: int | None) -> None:
        """Give all rows the same width, dropping empty cells beyond it; note a row that does not fit.

        By default, the width is that of all rows, or else that of the first up to its last non-empty cell.
        """
        sizes = {*map(len, self.cells)}
        if self.problem or sizes <= {width} or (width is None and len(sizes) == 1):
            return
        if width is None:
            least = min(sizes)
            width = least if all(filled(row) <= least for row in self.cells) else filled(self.cells[0])
        for row, line in zip(self.cells, self.lines, strict=True):
            if not filled(row) <= width <= len(row):
                self.problem, self.line = f"has {len(row)} columns; expected {width}", line
                return
        self.cells = [row[:width] for row in self.cells]

    def explained(self, delimiter: str) -> bool:
        """Return whether a writer of the dialect would quote exactly these cells, ignoring the header."""
        if self.problem or self.left_over:
            return False
        reasons = [
            len(cells) == sum(map(bool, column)) > 1  # the whole column
            or all(delimiter in cell or self.dialect.quote in cell or REASON.search(cell) for cell in cells)
            for all_rows in zip(*self.cells, strict=True)
            for column in (all_rows if isinstance(all_rows[0], Quoted) else all_rows[1:],)
            if (cells := [cell for cell in column if isinstance(cell, Quoted)])
        ]
        return all(reasons) and (bool(reasons) or self.dialect.backslash)


def rows(text: str, delimiter: str, quoting: bool, width: int | None = None) -> Rows:
    """Return the rows of a text in the first dialect that explains it.

    If none does, quotes enclose cells if `quoting`, else they are ordinary characters; if neither fits, rows
    have a problem. If a quoted cell has line breaks, but each of its lines would be a full row, rows have a
    problem, too, or without `quoting` quotes are ordinary characters.
    """
    usual = [RFC4180, PLAIN] if quoting else [PLAIN, RFC4180]
    done: dict[Dialect, Rows] = {}

    def parsed(dialect: Dialect) -> Rows:
        if dialect not in done:
            done[dialect] = split(text, delimiter, dialect)
            done[dialect].fit(width)
        return done[dialect]

    tried = (dialect for dialect in DIALECTS if dialect.occurs(text, delimiter))
    best = next((parsed(dialect) for dialect in tried if parsed(dialect).explained(delimiter)), None)
    best = best or next(
        (read for dialect in usual if not (read := parsed(dialect)).problem), parsed(usual[0])
    )
    if best.broken and not (plain := parsed(PLAIN)).problem and len(plain.cells[0]) > 1:
        if not quoting:
            return plain
        best.line, best.problem = (
            best.broken,
            "has a cell in quotes that ends in another line, but all these lines have all columns",
        )
    return best


def first(text: str, delimiter: str) -> list[str]:
    """Return the cells of the first row of a text, quoted or not."""
    line = text.partition("\n")[0]
    for start in (line, text):
        for dialect in DIALECTS:
            cells = next(iter(split(start, delimiter, dialect).cells), [])
            quoted = [isinstance(cell, Quoted) for cell in cells]
            if any(quoted) and all(q or dialect.quote not in c for q, c in zip(quoted, cells, strict=True)):
                return [*map(str, cells)]
        if not any(cell.lstrip(" ").startswith(RFC4180.quote) for cell in line.split(delimiter)):
            break
    return next(iter(split(text, delimiter, PLAIN).cells), [])


def split(text: str, delimiter: str, dialect: Dialect) -> Rows:
    """Return the rows of a text, which line feeds end, without empty rows."""
    mark = next(character for character in map(chr, PRIVATE) if character not in text)
    values: list[str] = []

    def kept(match: re.Match[str]) -> str:
        cell = match["cell"]
        if cell is None:
            values.append(match[0][1:])
        elif dialect.backslash:
            values.append(Quoted(dialect.escape(delimiter).sub(r"\1", cell)))
        else:
            values.append(Quoted(cell.replace(dialect.quote * 2, dialect.quote)))
        return mark

    text = _pattern(delimiter, dialect).sub(kept, text) if dialect.quote else text
    found, given, line = Rows(dialect, [], []), iter(values), 1
    found.left_over = bool(dialect.quote) and dialect.quote in text
    for row in text.split("\n"):
        cells, start = row.rstrip("\r").split(delimiter), line
        if mark in row:
            cells = [next(given) if cell == mark else _filled(cell, mark, given) for cell in cells]
            if breaks := sum(cell.count("\n") for cell in cells):
                found.broken, line = found.broken or start, line + breaks
        line += 1
        if found.left_over and dialect.quote in row:
            _check_closed(found, cells, start)
            if found.problem:
                break
        if cells != [""] or isinstance(cells[0], Quoted):
            found.cells.append(cells)
            found.lines.append(start)
    return found


def _check_closed(found: Rows, cells: list[str], line: int) -> None:
    """Note a cell that starts with a quote but is not quoted."""
    for cell in cells:
        if not isinstance(cell, Quoted) and cell.lstrip(" ").startswith(found.dialect.quote):
            problem = "begins with a quote, but is not in quotes; expected quotes inside to be doubled"
            found.problem, found.line = f"has {shown(cell)}, which {problem}", line


def _filled(cell: str, mark: str, given: Iterator[str]) -> str:
    """Return a cell with its placeholders replaced."""
    return re.sub(mark, lambda _: next(given), cell) if mark in cell else cell


@functools.cache
def _pattern(delimiter: str, dialect: Dialect) -> re.Pattern[str]:
    """Return a pattern for quoted cells, with spaces around them, and for escaped characters."""
    quote, end, space = dialect.quote, re.escape(delimiter), "" if delimiter == " " else " *"
    more, inner = (r"\\", r"\\.") if dialect.backslash else ("", quote * 2)
    inside = rf"[^{quote}{more}]*+(?:{inner}[^{quote}{more}]*+)*+"
    cell = rf"(?<![^{end}\n]){space}{quote}(?P<cell>{inside}){quote}{space}(?={end}|\r*(?:\n|\Z))"
    return re.compile(f"{cell}|{dialect.escape(delimiter).pattern}" if dialect.backslash else cell, re.DOTALL)
