"""Texts without labels, whose own tokens are predicted, and metrics from numbers that add up over texts.

Predictions have the number of tokens predicted right, and the surprisal of all in bits. Labels have the
numbers of predicted tokens and of their bytes, and both numbers for the best constant prediction: the most
frequent token, and each token by its frequency.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headspec.tasks.kinds.texts.data import Texts

if TYPE_CHECKING:
    import pandas as pd

    from headspec.tasks.keys import TaskKeys

Floats = NDArray[np.float64]


class Unlabelled(Texts):
    """Texts, each with an empty label."""

    def columns(self, task: TaskKeys) -> list[str]:
        return []

    def rows(self, frame: pd.DataFrame, task: TaskKeys, key: str, where: str) -> pd.DataFrame:
        return self.texts(frame, task, key, where).assign(label="")


DATA = Unlabelled()
