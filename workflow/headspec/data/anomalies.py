"""Oddities in the classes and texts of a task: signs that data are not read as intended.

Each rule is a function in `RULES` that yields a sentence for what it finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd
import regex

from headspec.data import joined_labels, lookalikes
from headspec.data.lookalikes import UNSEEN
from headspec.data.quality import rows_of
from headspec.data.sources.columns import literal
from headspec.data.sources.entries import SPLITS
from headspec.data.sources.formats.options import NOTES
from headspec.errors import listing, shown
from headspec.tasks import data

if TYPE_CHECKING:
    from headspec.config.sections.task import Task

#: notations of programs for missing values
MISSING = {"NaN", "nan", "NaT", "None", "NULL", "null", "NA", "N/A", "n/a", "#N/A", "<NA>"}
#: control characters except white space, replacement characters, and unassigned code points
UNPRINTED = regex.compile(r"(?V1)[[\p{Cc}--\s]\p{Cs}\p{Co}\p{Cn}\ufeff\ufffd]")
#: joiners of letters in Persian or Hindi, and of parts of emoji
JOINING = regex.compile(r"(?<=[^\x00-\x7f])[\p{Join_C}\p{VS}\U000e0020-\U000e007f]")
#: share of texts in another notation from which there is a warning
MOST = 0.5
#: share of rows with one label from which there is a warning: in general, and with more than two classes
SHARES = (0.9, 0.55)
#: maximum number of numbers taken as classes, such as 77 intents, instead of scores
NUMBERS = 100


@dataclass(frozen=True)
class Reading:
    """A task as read.

    Attributes
    ----------
    key : key of the task in the config
    task : its section
    names : names of classes, if it has any
    rows : all rows read of each split, train first: text_a, text_b (null for single texts), label
    """

    key: str
    task: Task
    names: Sequence[str]
    rows: Mapping[str, pd.DataFrame]

    @property
    def stored(self) -> Sequence[str]:
        """The names of classes in the data; none if the config names them."""
        return () if self.task.labels else self.names

    @property
    def texts(self) -> Iterator[tuple[str, str, pd.Series]]:
        """The texts of each split and column, with their names in messages."""
        for split, rows in self.rows.items():
            for column in ("text_a", "text_b"):
                if len(texts := rows[column].dropna()):
                    yield column, rows_of(split), texts


def odd(reading: Reading) -> list[str]:
    """Return the findings of all rules, each with its config key."""
    return [f"{reading.key}{line}" for rule in RULES for line in rule(reading)]


def read_otherwise(reading: Reading) -> Iterator[str]:
    """Yield notes on files that are not read as their suffixes suggest."""
    for note in dict.fromkeys(note for rows in reading.rows.values() for note in rows.attrs.get(NOTES, ())):
        yield f".source: {note}"


def missing(reading: Reading) -> Iterator[str]:
    """Yield a sentence on labels that may mean a missing label."""
    if found := [name for name in reading.stored if name in MISSING]:
        yield (
            f".label: {listing(found)} is treated as a class; if it marks a missing label, name "
            f"it in {reading.key}.unlabelled"
        )


def alike(reading: Reading) -> Iterator[str]:
    """Yield a sentence on names that differ only in case or punctuation, or invisibly."""
    if groups := [" and ".join(map(_visibly(group), group)) for group in lookalikes.alike(reading.stored)]:
        yield (
            f".label: {listing(groups, 3)} are separate classes; if they mean the same, merge them by "
            f"{reading.key}.labels"
        )


def _visibly(names: Sequence[str]) -> Callable[[str], str]:
    """Return a function that makes names distinguishable even if they look the same."""
    folded = {name.casefold() for name in names}
    skeletons = {lookalikes.skeleton(name) for name in folded} if not "".join(names).isascii() else folded
    return ascii if len(skeletons) < len(folded) else repr


def joined(reading: Reading) -> Iterator[str]:
    """Yield a sentence on classes that combine several other classes."""
    if reading.task.type != "labels" and (several := sorted(joined_labels.composed(reading.stored))):
        yield (
            f".label: {len(several)} of {len(reading.names)} classes combine other classes, such as "
            f"{several[0]!r}; for several labels of a text, set {reading.key}.type to labels"
        )


def recurring(reading: Reading) -> Iterator[str]:
    """Yield a sentence on labels that may join several, which need not occur alone."""
    splits_cells = reading.task.type == "labels" and not getattr(reading.task, "separator", None)
    if splits_cells and (found := joined_labels.recurring(reading.stored)):
        yield (
            f".label: {len(found.parts)} of {len(reading.names)} labels are parts of other labels joined by "
            f"'{found.joint}', such as {found.parts[0]!r}; to split them, set {reading.key}.separator "
            f"to '{found.joint}'"
        )


def like_splits(reading: Reading) -> Iterator[str]:
    """Yield a sentence on classes named like splits, for example folders."""
    if found := [name for name in reading.names if name.casefold() in SPLITS]:
        yield f".label: {listing(found)} is treated as a class, but has the name of a split"


def numbers(reading: Reading) -> Iterator[str]:
    """Yield a sentence on classes that look like scores."""
    values = pd.to_numeric(pd.Series(list(reading.stored), dtype=object), errors="coerce")
    if len(values) and values.notna().all() and (len(values) > NUMBERS or (values % 1 != 0).any()):
        yield (
            f".label: {len(values)} different numbers are taken as classes, from {values.min():g} to "
            f"{values.max():g}; for scores, set {reading.key}.type to regression"
        )


def mostly_one(reading: Reading) -> Iterator[str]:
    """Yield a sentence on a class with most rows, which may stand for a missing label."""
    if reading.task.type in ("classification", "labels"):
        labels = reading.rows["train"]["label"]
        name, n = data.reader(reading.task.type).tally(labels).most_common(1)[0]
        exclusive = reading.task.type == "classification" and len(reading.names) > 2
        if n > len(labels) * SHARES[exclusive]:
            yield (
                f".label: {n} of {len(labels)} training rows have the label {shown(name)}; if it marks "
                f"a missing label, name it in {reading.key}.unlabelled"
            )


def formatted(reading: Reading) -> Iterator[str]:
    """Yield a sentence on classes in the notation of a program's values, or parts of it."""
    found = [name for name in reading.names if _value(name) not in (None, name) or _is_part(name)]
    if found:
        yield (
            f".label: {len(found)} of {len(reading.names)} classes look like values of a program, or parts "
            f"of them, such as {shown(found[0])}; expected names"
        )


def formatted_texts(reading: Reading) -> Iterator[str]:
    """Yield a sentence for each column of texts that are mostly in the notation of a program's values."""
    for column, what, texts in reading.texts:
        wrong = texts.map(lambda text: text[:1] in "[{(\"'" and _value(text) is not None)
        if wrong.sum() > MOST * len(texts):
            row: Any = wrong.idxmax()
            yield (
                f".{column}: {wrong.sum()} of {len(texts)} {what} look like values of a program, "
                f"such as row {row + 1}, {shown(texts[row])}; expected texts"
            )


def _value(text: str) -> Any:
    """Return the quoted text, list, set or mapping that a text denotes; None if it denotes no such value."""
    try:
        value = literal(text)
    except ValueError:
        return None
    return value if isinstance(value, (str, list, tuple, set, frozenset, dict)) else None


def _is_part(name: str) -> bool:
    """Return whether a name has only one of a pair of quotes or brackets, at its start or end."""
    alone = [quote for quote in "'\"" if name.startswith(quote) != name.endswith(quote)]
    alone += [pair for pair in ("()", "[]", "{}") if name.count(pair[0]) != name.count(pair[1])]
    return any(map(str.isalpha, name)) and any(name[0] in pair or name[-1] in pair for pair in alone)


def unprinted(reading: Reading) -> Iterator[str]:
    """Yield sentences on names and texts with unprintable characters."""
    bare = {name: JOINING.sub("", name) for name in reading.names}
    if hidden := [name for name, seen in bare.items() if UNPRINTED.search(seen) or UNSEEN.search(seen)]:
        yield f".label: {listing(map(ascii, hidden), 3)}: classes with characters that are not printed"
    for column, what, texts in reading.texts:
        found = texts.map(lambda text: None if text.isprintable() else UNPRINTED.search(text)).dropna()
        if len(found):
            row, match = found.index[0], found.iloc[0]
            yield (
                f".{column}: {len(found)} of {len(texts)} {what} have characters that are not printed, such "
                f"as {ascii(match[0])} in row {row + 1}"
            )


#: rules, in the order of messages
RULES: tuple[Callable[[Reading], Iterator[str]], ...] = (
    read_otherwise,
    missing,
    alike,
    joined,
    recurring,
    like_splits,
    numbers,
    mostly_one,
    formatted,
    formatted_texts,
    unprinted,
)
