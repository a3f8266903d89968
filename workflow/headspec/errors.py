"""Errors that users can cause, and helpers to word them."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Self

from headspec.redaction import redacted

#: maximum number of names listed in a sentence; no section of the config has more keys
LISTED = 30

#: words that YAML 1.1 reads as booleans, besides true and false
BOOLEANS = {"true": {"yes", "on"}, "false": {"no", "off"}}
QUOTE = " YAML reads yes, no, on and off as true and false; quote them, as in 'yes'."

#: minimum similarity of a suggested name
CLOSE = 0.6


class HeadspecError(Exception):
    """Base of headspec's own errors; secrets in the message are hidden."""

    _errors: tuple[HeadspecError, ...] = ()

    def __init__(self, message: object = "") -> None:
        super().__init__(redacted(str(message)))

    @classmethod
    def combined(cls, problems: Iterable[HeadspecError]) -> Self:
        """Return one error with the messages of all `problems`, one per line."""
        errors = tuple(itertools.chain.from_iterable(problem.errors for problem in problems))
        error = cls("\n".join(map(str, errors)))
        error._errors = errors
        return error

    @property
    def errors(self) -> tuple[HeadspecError, ...]:
        """The errors that were combined, or this error alone."""
        return self._errors or (self,)


class ConfigError(HeadspecError):
    """The study config is invalid, or asks for something impossible."""


class DataError(HeadspecError):
    """Data are missing, unreadable, or different from what the config says."""


class MissingError(DataError):
    """A file, folder or package is missing here; the machine that runs jobs may have it."""


class DamageError(DataError):
    """A file of the results is damaged, changed after it was written, or moved to another file's place."""


class StorageError(HeadspecError):
    """A file cannot be written, for example because the disk is full or read-only."""


class UnfinishedError(HeadspecError):
    """A study, or something made from its results, is not finished."""


class ChangedError(HeadspecError):
    """Code or an input changed after a job was planned."""


class UnplannedError(HeadspecError):
    """A job loaded code that its plan does not cover."""


class ScoreError(DataError, ValueError):
    """A score of written texts failed; `texts` are pairs (example, text) of the texts written so far."""

    texts: Sequence[tuple[int, str]] = ()


class ModelError(HeadspecError):
    """A model cannot be loaded, its heads cannot be gated, or it does not fit the settings."""


class NumericalError(HeadspecError):
    """A computation gave nan or infinity."""


def nearest(name: object, valid: Iterable[object]) -> str:
    """Return `` Did you mean 'x'?`` with the closest valid name, or an empty string if none is close.

    Initials and single words of a name count as close; case and the order of tasks are ignored. Returns
    `QUOTE` instead if YAML read the name, or a valid one, as a boolean.
    """
    names, wanted = list(map(str, valid)), _form(str(name))
    if str(name) not in names and _meant(str(name).lower(), {other.lower() for other in names}):
        return QUOTE

    def likeness(other: str) -> float:
        ratio = difflib.SequenceMatcher(None, _form(other), wanted).ratio()
        return max(ratio, _abbreviated(_form(other), wanted))

    best = max(names, key=likeness, default="")
    return f" Did you mean '{best}'?" if best and likeness(best) >= CLOSE else ""


def _meant(name: str, valid: set[str]) -> bool:
    """Return whether YAML read a word in `valid` as the boolean `name`, or vice versa."""
    return any(
        (name == boolean and not words.isdisjoint(valid)) or (name in words and boolean in valid)
        for boolean, words in BOOLEANS.items()
    )


def _form(name: str) -> str:
    return "+".join(sorted(name.lower().split("+")))


def _abbreviated(name: str, other: str) -> float:
    """Return 1 for ``learning_rate`` and ``lr``, `CLOSE` for ``f1`` and ``f1_macro``, else 0."""
    words = [re.findall(r"[^\W_]+", each) for each in (name, other)]
    initials = ["".join(word[0] for word in each) for each in words]
    if initials[0] == other and len(words[0]) > 1:
        return 1.0
    shared = set(words[0]) & set(words[1])
    return CLOSE if shared and shared in (set(words[0]), set(words[1])) else 0.0


def listing(names: Iterable[object], most: int = LISTED) -> str:
    """Return names as ``a, b, c``, with invisible names quoted; beyond `most`, it ends with their number."""
    texts = list(map(str, names))
    more = [f"... ({len(texts)} in all)"] if len(texts) > most else []
    visible = (text if text.isprintable() and text.strip() else repr(text) for text in texts[:most])
    return ", ".join([*visible, *more]) or "nothing"


def lines(problems: Iterable[str]) -> str:
    """Return one line per problem, with invisible characters such as line breaks escaped."""
    return "\n".join(
        "".join(c if c.isprintable() else repr(c)[1:-1] for c in problem) for problem in problems
    )


def shown(value: object) -> str:
    """Return a config value on one line, shortened to 80 characters."""
    try:
        text = "nothing" if value is None else repr(value)
    except (ValueError, RecursionError):  # an integer of more than 4300 digits, a list nested as deeply
        text = f"a value of type {type(value).__name__} that cannot be written"
    return text if len(text) <= 80 else f"{text[:76]} ..."
