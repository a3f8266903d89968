"""Cases of a test in two tiers."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def cases(values: Iterable[Any], quick: Callable[[Any], bool]) -> list[Any]:
    """Parameters of a test: all `values`, of which those that are not `quick` are thorough.

    Parameters
    ----------
    values : a tuple is the values of several parameters
    quick : of a value, or of a tuple
    """
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            marks=() if quick(value) else pytest.mark.thorough,
        )
        for value in values
    ]
