"""Cases of a test in two tiers."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def cases(values: Iterable[Any], quick: Callable[[Any], bool]) -> list[Any]:
    """Parameters of a test: all `values`, of which those that are not `quick` are thorough.

    Parameters
    ----------
    values : a tuple is the values of several parameters
    """
    given = [value if isinstance(value, tuple) else (value,) for value in values]
    thorough = pytest.mark.thorough
    return [pytest.param(*one, marks=() if quick(one[0]) else thorough) for one in given]
