"""Findings of a study on models without any heads."""

from collections.abc import Mapping

import pandas as pd

from headspec.config.values import MEAN, WHOLE
from headspec.numbers import hundredths

#: number of tasks named in the line on models without heads
SHOWN = 3


def headless(tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Return a line on models with all heads closed, from tables by name, if they have them.

    ``without any head: topic 88.1 % (with all 90.2 %), ...``: tasks that lose the smallest share first.
    """
    key = ["model", "mixture", "method", "task", "metric"]
    parts = []
    if (curves := tables.get("pruning_curves")) is not None:
        ends = [curves[curves["fraction"] == end].groupby(key)["value"].mean() for end in (1, 0)]
        parts.append(pd.concat(ends, axis=1, keys=["none", "all"]))
    if (budgets := tables.get("budgets")) is not None:
        budgets = budgets[budgets["task"] != MEAN]
        ends = [
            budgets[rows].groupby(key)["value"].mean()
            for rows in (budgets["heads"] == 0, budgets["way"] == WHOLE)
        ]
        parts.append(pd.concat(ends, axis=1, keys=["none", "all"]))
    values = pd.concat(parts) if parts else pd.DataFrame(columns=["none", "all"])
    values = values.dropna().astype(float)
    if values.empty:
        return []
    means = values.groupby(["task", "metric"]).mean()
    means = means.loc[(means["none"] / means["all"]).sort_values(ascending=False, kind="stable").index]
    named = [
        f"{task} {hundredths(row.none)} % (with all {hundredths(row.all)} %)"
        for (task, _), row in zip(means.index, means.itertuples(), strict=True)
    ][:SHOWN]
    more = f", and {len(means) - SHOWN} more" if len(means) > SHOWN else ""
    return [f"without any head: {', '.join(named)}{more}"]
