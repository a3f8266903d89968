"""The errors a user can cause, and how they are worded."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class HeadspecError(Exception):
    """Base of every error that headspec raises on purpose."""


class ConfigError(HeadspecError):
    """The study config asks for something that cannot be done."""


class DataError(HeadspecError):
    """Data are missing, unreadable, or not what the config says."""


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
