"""Numbers as text: a missing number is a dash, and a number that rounds to 0 has no sign."""

import math
from typing import Any

MISSING = "–"


def plain(value: Any, digits: int = 2) -> str:
    """Return `value` with `digits` decimals, for a screen."""
    return MISSING if value is None or math.isnan(value) else f"{round(value, digits) + 0.0:.{digits}f}"


def hundredths(value: Any, digits: int = 1) -> str:
    """Return a fraction in hundredths, for a screen."""
    return plain(math.nan if value is None else 100 * value, digits)


def number(value: Any, digits: int = 2) -> str:
    """Return `value` with `digits` decimals and a true minus sign, for a figure."""
    return plain(value, digits).replace("-", "\N{MINUS SIGN}")
