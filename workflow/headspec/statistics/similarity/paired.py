"""Similarity beside dissociation, for every pair of tasks."""

import itertools
from collections.abc import Mapping

import numpy as np
import pandas as pd


def paired(
    similarity: pd.DataFrame, combined: pd.DataFrame, paradigms: Mapping[str, str], method: str
) -> pd.DataFrame:
    """Similarity and dissociation of every model, measure and pair of tasks, in this order.

    They are means over subjects in the table 'similarity', and over the two tasks of a mixture in 'combined'.
    `paradigms` has the input paradigm of each task, in the order in which mixtures name them. Columns are
    model, measure, mixture, same_paradigm, similarity (nan where missing), similarity_low, similarity_high,
    dissociation, ci_low, ci_high, at_chance and left_out: all pairs of a task at which an unpruned model is
    at chance in one of them, because Mantel tests rename whole tasks.
    """
    pairs = list(itertools.combinations(paradigms, 2))
    names = {frozenset(pair): "+".join(pair) for pair in pairs}
    same = {"+".join((a, b)): paradigms[a] == paradigms[b] for a, b in pairs}
    means = similarity[similarity["subject"].isna()]
    mixtures = [names[frozenset(pair)] for pair in zip(means["task_a"], means["task_b"], strict=True)]
    means = means.assign(mixture=mixtures)
    means = means.rename(columns={"ci_low": "similarity_low", "ci_high": "similarity_high"})
    x = means[["model", "measure", "mixture", "similarity", "similarity_low", "similarity_high"]]
    combined = combined[(combined["method"] == method) & combined["mixture"].isin(same)]
    y = combined[combined["task"] == "mean"]
    y = y[["model", "mixture", "dissociation", "ci_low", "ci_high", "at_chance"]]
    every = itertools.product(means["model"].unique(), means["measure"].unique(), same.items())
    rows = pd.DataFrame(
        [(model, measure, *pair) for model, measure, pair in every],
        columns=["model", "measure", "mixture", "same_paradigm"],
    )
    merged = rows.merge(x, "left", ["model", "measure", "mixture"]).merge(y, "left", ["model", "mixture"])
    nothing = combined[combined["unpruned_at_chance"].eq(True) & combined["task"].isin(paradigms)]
    unlearnt = nothing.groupby("model")["task"].agg(set).to_dict()
    tasks = {mixture: pair for pair, mixture in names.items()}
    left = [
        not tasks[mixture].isdisjoint(unlearnt.get(model, ()))
        for model, mixture in zip(merged["model"], merged["mixture"], strict=True)
    ]
    return merged.assign(at_chance=merged["at_chance"].eq(True), left_out=np.array(left, dtype=bool))
