"""Sets of labels as tables have them: in JSON, and as rows of 0 and 1."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray


def written(names: Iterable[str]) -> str:
    """A set of labels as a list in JSON, sorted."""
    return json.dumps(sorted({*names}), ensure_ascii=False)


def parsed(label: str) -> list[str]:
    """The names of `written`."""
    return [str(name) for name in json.loads(label)]


def indicators(labels: Iterable[str], names: Sequence[str]) -> NDArray[np.float64]:
    """Rows of 0 and 1, (n, names), of sets of labels as `written`."""
    index = {name: i for i, name in enumerate(names)}
    sets = [parsed(label) for label in labels]
    rows = np.zeros((len(sets), len(names)))
    for row, of_row in zip(rows, sets, strict=True):
        row[[index[name] for name in of_row]] = 1
    return rows
