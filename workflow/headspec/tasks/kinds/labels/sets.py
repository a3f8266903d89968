"""Sets of labels in tables: as JSON, and as rows of 0 and 1."""

import json
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray


def written(names: Iterable[str]) -> str:
    """Return a set of labels as a sorted list in JSON."""
    return json.dumps(sorted({*names}), ensure_ascii=False)


def parsed(label: str) -> list[str]:
    """Return the names in JSON from `written`."""
    return [str(name) for name in json.loads(label)]


def indicators(labels: Iterable[str], names: Sequence[str]) -> NDArray[np.float64]:
    """Return rows of 0 and 1, (n, names), for sets of labels in JSON."""
    index = {name: i for i, name in enumerate(names)}
    sets = [parsed(label) for label in labels]
    rows = np.zeros((len(sets), len(names)))
    for row, chosen in zip(rows, sets, strict=True):
        row[[index[name] for name in chosen]] = 1
    return rows
