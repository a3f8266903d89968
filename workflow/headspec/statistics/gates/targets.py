"""Number of heads that a run keeps, and whether its gates learnt to leave as many open."""

from typing import NamedTuple

import numpy as np
import pandas as pd

#: fraction of the heads by which the number of open ones may be off its target
TOLERANCE = 0.05


class Counts(NamedTuple):
    """Heads of a run, mean over its sets."""

    heads: float  # number kept
    open_heads: float = np.nan  # number expected to be open by the gates as learnt; nan without a target
    missed: float = np.nan  # share of the sets whose `open_heads` missed the target (`TOLERANCE`)


def missed(expected: float, target: float, heads: int) -> bool:
    """Whether the number of heads `expected` to be open misses its target, among `heads` that learn."""
    return abs(expected - target) > TOLERANCE * heads


def counts(gates: pd.DataFrame, open_ended: bool = False) -> Counts:
    """Return the heads that a run keeps in the end, from its table 'gates_of_run'.

    Gates have a target if they have a probability of being open and learn for one number of heads, not
    `open_ended`.
    """
    last = gates[gates["step"] == gates["step"].max()]
    sets = last.groupby("task", dropna=False)
    kept = sets["kept"].sum()
    if open_ended or last["open_probability"].isna().any():
        return Counts(float(kept.mean()))
    open_heads, learning = sets["open_probability"].sum(), sets["score"].count()
    off = [missed(*numbers) for numbers in zip(open_heads, kept, learning, strict=True)]
    return Counts(float(kept.mean()), float(open_heads.mean()), float(np.mean(off)))
