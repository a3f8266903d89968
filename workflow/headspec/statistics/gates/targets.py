"""How many heads a run keeps, and whether its gates learnt to leave as many open."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

#: fraction of the heads by which the number of open ones may be off its target
TOLERANCE = 0.05


class Counts(NamedTuple):
    """Heads of a run, mean over its sets.

    Attributes
    ----------
    heads : number kept
    open_heads : number expected to be open by the gates as they were learnt; nan without a target
    missed : share of the sets whose `open_heads` has missed its target (`TOLERANCE`)
    """

    heads: float
    open_heads: float = np.nan
    missed: float = np.nan


def missed(expected: float, target: float, heads: int) -> bool:
    """Whether the number of heads `expected` to be open is off its target, among `heads` that learn."""
    return abs(expected - target) > TOLERANCE * heads


def counts(gates: pd.DataFrame, open_ended: bool = False) -> Counts:
    """The heads that a run keeps in the end, from its table 'gates_of_run'.

    Gates have a target if they learn for one number of heads and have a probability of being open.

    Parameters
    ----------
    open_ended : whether they learn for no number
    """
    last = gates[gates["step"] == gates["step"].max()]
    sets = last.groupby("task", dropna=False)
    kept = sets["kept"].sum()
    if open_ended or last["open_probability"].isna().any():
        return Counts(float(kept.mean()))
    open_heads, learning = sets["open_probability"].sum(), sets["score"].count()
    off = [missed(*numbers) for numbers in zip(open_heads, kept, learning, strict=True)]
    return Counts(float(kept.mean()), float(open_heads.mean()), float(np.mean(off)))
