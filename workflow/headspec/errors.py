"""The errors a user can cause, and how they are worded."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Self


class HeadspecError(Exception):
    """Base of every error that headspec raises on purpose.

    Attributes
    ----------
    parts : the errors whose messages it has together; itself, where it is of one problem
    """

    _parts: tuple[HeadspecError, ...] = ()

    @classmethod
    def of(cls, problems: Iterable[HeadspecError]) -> Self:
        """One error for all of `problems`."""
        parts = tuple(part for problem in problems for part in problem.parts)
        error = cls("\n".join(map(str, parts)))
        error._parts = parts
        return error

    @property
    def parts(self) -> tuple[HeadspecError, ...]:
        return self._parts or (self,)


class ConfigError(HeadspecError):
    """The study config asks for something that cannot be done."""


class DataError(HeadspecError):
    """Data are missing, unreadable, or not what the config says."""


class MissingError(DataError):
    """A file, folder or package is not on this machine; where the jobs run it may be."""


class EncoderError(HeadspecError):
    """A pretrained model cannot be loaded, or its heads cannot be gated."""


class NumericalError(HeadspecError):
    """A computation came to nan or infinity, where nothing that follows means anything."""


def nearest(name: object, known: Iterable[object]) -> str:
    """`` Did you mean 'x'?`` for the known name closest to `name`, else the empty string."""
    names = [str(k) for k in known]
    lowered = {n.lower(): n for n in reversed(names)}
    found = difflib.get_close_matches(str(name).lower(), lowered, n=1, cutoff=0.6)
    return f" Did you mean '{lowered[found[0]]}'?" if found else ""


def listing(known: Iterable[object]) -> str:
    """Names as a reader wants them in a sentence: ``a, b, c``."""
    return ", ".join(str(k) for k in known) or "nothing"
