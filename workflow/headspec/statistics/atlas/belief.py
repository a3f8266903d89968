"""Agreement of each ranking of heads with ablation, its pruning area and its dissociation."""

import pandas as pd

from headspec.config.values import MEAN, RANDOM, TOP
from headspec.statistics.dissociation.analysis import KEY
from headspec.tables import FLAG, FLOAT, INT, TEXT, Schema

#: measures of what happens without a head, which the others are compared with
TRUTHS = ("ablation", "ablation_size")
AGREEMENT = [
    f"{statistic}{end}" for statistic in ("spearman", "top_overlap") for end in ("", "_low", "_high")
]
AREA = {"value": "area", "ci_low": "area_low", "ci_high": "area_high"}
DIFFERENCE = {"value": "difference", "ci_low": "difference_low", "ci_high": "difference_high",
              "p_holm": "difference_p_holm", "p_seeds_holm": "difference_p_seeds_holm"}  # fmt: skip
DISSOCIATION = {"dissociation": "dissociation", "ci_low": "dissociation_low",
                "ci_high": "dissociation_high", "p_holm": "dissociation_p_holm",
                "p_seeds_holm": "dissociation_p_seeds_holm",
                "at_chance": "at_chance", "unpruned_at_chance": "unpruned_at_chance"}  # fmt: skip
ROW = [*KEY, "task", "ranking"]

BELIEF = Schema(
    dict.fromkeys(ROW, TEXT) | {"n_seeds": INT}
    | {f"{truth}_{column}": FLOAT for truth in TRUTHS for column in AGREEMENT}
    | dict.fromkeys([*AREA.values(), *DIFFERENCE.values(), *DISSOCIATION.values()], FLOAT)
    | {"at_chance": FLAG, "unpruned_at_chance": FLAG, "ci_over": TEXT},
    keys=5,
)  # fmt: skip
"""Table `belief`: a row for each mixture, task and ranking.
tables/belief.parquet

ablation_spearman, ablation_size_spearman: rank correlation over heads with that measure
ablation_top_overlap, ablation_size_top_overlap: Jaccard index of the top heads
area: under the pruning curve
difference: area less the mean of random orders
difference_p_holm, dissociation_p_holm: corrected p of these runs
difference_p_seeds_holm, dissociation_p_seeds_holm: corrected p for other seeds; null with one or two
dissociation: D by the ranking; null if all tasks share it
ci_over: of the area; the difference also over orders
"""


def belief(agreement: pd.DataFrame, areas: pd.DataFrame, dissociation: pd.DataFrame) -> pd.DataFrame:
    """Return the table `belief`: agreement, pruning areas (top heads first) and dissociation of rankings.

    Agreement of the task `mean` and the ends of its interval are means over tasks: the interval is no
    narrower than one of the mean.
    """
    areas = areas[areas["order"] == TOP]
    own = areas[areas["against"].isna()].rename(columns=AREA)
    against = areas[areas["against"] == RANDOM].rename(columns=DIFFERENCE)
    parts = [
        against[[*ROW, *DIFFERENCE.values()]],
        dissociation.rename(columns=DISSOCIATION)[[*ROW, *DISSOCIATION.values()]],
        *(_with_truth(agreement, truth) for truth in TRUTHS),
    ]
    table = own[[*ROW, "n_seeds", *AREA.values(), "ci_over"]]
    for part in parts:
        table = table.merge(part, how="left", on=ROW)
    return table[list(BELIEF.columns)]


def _with_truth(agreement: pd.DataFrame, truth: str) -> pd.DataFrame:
    """Agreement of every other measure with `truth`, by task and as the mean over tasks."""
    columns = [*KEY, "task", *AGREEMENT]
    sides = [
        agreement.loc[agreement[side] == truth, [*columns, other]].rename(columns={other: "ranking"})
        for side, other in (("measure_a", "measure_b"), ("measure_b", "measure_a"))
    ]
    by_task = pd.concat(sides, ignore_index=True)
    means = by_task.groupby([*KEY, "ranking"], as_index=False)[AGREEMENT].mean().assign(task=MEAN)
    names = {column: f"{truth}_{column}" for column in AGREEMENT}
    return pd.concat([by_task, means], ignore_index=True)[[*ROW, *AGREEMENT]].rename(columns=names)
