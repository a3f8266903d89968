"""Similarity beside dissociation, for every pair of tasks (Li et al. 2023)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pandas as pd


def paired(
    similarity: pd.DataFrame, combined: pd.DataFrame, paradigms: Mapping[str, str], method: str
) -> pd.DataFrame:
    """Similarity and dissociation of every pair of tasks.

    Parameters
    ----------
    similarity : table 'similarity'
        Rows of single subjects are ignored; their means are used.
    combined : table 'combined'
        Only means over the two tasks of a mixture are used.
    paradigms : task: its input paradigm
        The tasks whose pairs are mixtures, in the order in which mixtures name them.
    method : training method of the runs

    Returns
    -------
    DataFrame
        A row for every model, measure and pair of tasks, in this order; columns model, measure,
        mixture, same_paradigm, similarity (nan where missing), similarity_low, similarity_high,
        dissociation, ci_low, ci_high, at_chance.
    """
    pairs = list(itertools.combinations(paradigms, 2))
    names = {frozenset(pair): "+".join(pair) for pair in pairs}
    same = {"+".join((a, b)): paradigms[a] == paradigms[b] for a, b in pairs}
    means = similarity[similarity["subject"].isna()]
    mixtures = [names[frozenset(pair)] for pair in zip(means["task_a"], means["task_b"], strict=True)]
    means = means.assign(mixture=mixtures)
    means = means.rename(columns={"ci_low": "similarity_low", "ci_high": "similarity_high"})
    x = means[["model", "measure", "mixture", "similarity", "similarity_low", "similarity_high"]]
    y = combined[(combined["method"] == method) & (combined["task"] == "mean")]
    y = y[["model", "mixture", "dissociation", "ci_low", "ci_high", "at_chance"]]
    every = itertools.product(means["model"].unique(), means["measure"].unique(), same.items())
    rows = pd.DataFrame(
        [(model, measure, *pair) for model, measure, pair in every],
        columns=["model", "measure", "mixture", "same_paradigm"],
    )
    merged = rows.merge(x, "left", ["model", "measure", "mixture"]).merge(y, "left", ["model", "mixture"])
    return merged.assign(at_chance=merged["at_chance"].eq(True))
