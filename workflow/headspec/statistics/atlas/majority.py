"""The role that a head has in most seeds."""

import pandas as pd


def majority(roles: pd.DataFrame) -> pd.DataFrame:
    """Role of each head in more than half of the seeds, else none, and its most frequent relation.

    `roles` are rows of 'head_roles' of one model, mixture and method; the index is (layer, head).
    """
    heads = ["layer", "head"]
    counts = roles.groupby([*heads, "role"]).size().rename("n").reset_index("role")
    shown = counts.loc[2 * counts["n"] > roles.groupby(heads).size().loc[counts.index], "role"]
    shown = shown.reindex(roles.groupby(heads).size().index, fill_value="none")
    related = roles.dropna(subset="relation").join(shown.rename("shown"), on=heads)
    related = related[related["role"] == related["shown"]]
    rates = related.groupby([*heads, "relation"])["rate"].agg(["size", "mean"])
    best = rates.sort_values(["size", "mean"]).reset_index("relation").groupby(heads)["relation"].last()
    return pd.DataFrame({"role": shown, "relation": best.reindex(shown.index)})
