"""Artificial tables of labelled texts."""

from typing import Any

import numpy as np
import pandas as pd


def labelled(n: int, start: int = 0, **columns: Any) -> pd.DataFrame:
    """Texts number `start` to `start + n - 1`, with two unrelated kinds of labels."""
    rng = np.random.default_rng(start)
    numbers = range(start, start + n)
    rows = {
        "text": [f"Text {i}." for i in numbers],
        "label": rng.choice(["x", "y", "z"], n, p=[0.6, 0.3, 0.1]),
    }
    return pd.DataFrame(rows | {"other": rng.integers(0, 2, n), "score": rng.random(n)} | columns)


def table(*rows: tuple) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["text_a", "text_b", "label"]).astype({"text_b": "str"})
    return frame.assign(example=range(len(rows)))
