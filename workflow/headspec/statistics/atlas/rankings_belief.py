"""Which ranking of heads to trust: agreement with ablation, pruning areas and dissociation side by side."""

import pandas as pd

from headspec.config.values import MEAN, RANDOM, TOP
from headspec.statistics.chance import MARKS
from headspec.statistics.dissociation.analysis import KEY
from headspec.tables import FLAG, FLOAT, INT, TEXT, Schema

#: measures of the effect of removing a head, which the others are compared with
TRUTHS = ("ablation", "ablation_size")
AGREEMENT_COLUMNS = [
    f"{statistic}{end}" for statistic in ("spearman", "top_overlap") for end in ("", "_low", "_high")
]
AREAS = {"value": "area", "ci_low": "area_low", "ci_high": "area_high"}
DIFFERENCES = {"value": "difference", "ci_low": "difference_low", "ci_high": "difference_high",
              "p_holm": "difference_p_holm", "p_seeds_holm": "difference_p_seeds_holm"}  # fmt: skip
DISSOCIATIONS = {"dissociation": "dissociation", "ci_low": "dissociation_low",
                "ci_high": "dissociation_high", "p_holm": "dissociation_p_holm",
                "p_seeds_holm": "dissociation_p_seeds_holm",
                **{column: column for column in MARKS}}  # fmt: skip
BELIEF_KEY = [*KEY, "task", "ranking"]

BELIEF = Schema(
    dict.fromkeys(BELIEF_KEY, TEXT) | {"n_seeds": INT}
    | {f"{truth}_{column}": FLOAT for truth in TRUTHS for column in AGREEMENT_COLUMNS}
    | dict.fromkeys([*AREAS.values(), *DIFFERENCES.values(), *DISSOCIATIONS.values()], FLOAT)
    | dict.fromkeys(MARKS, FLAG) | {"ci_over": TEXT},
    keys=5,
    about={
        "ablation_spearman": "rank correlation over heads with that measure",
        "ablation_size_spearman": "rank correlation over heads with that measure",
        "ablation_top_overlap": "Jaccard index of the top heads",
        "ablation_size_top_overlap": "Jaccard index of the top heads",
        "area": "under the pruning curve",
        "difference": "area minus the mean of random orders; interval and p are for one more random "
            "order",
        "difference_p_holm": "corrected p of these runs",
        "dissociation_p_holm": "corrected p of these runs",
        "difference_p_seeds_holm": "corrected p for other seeds; null with one or two",
        "dissociation_p_seeds_holm": "corrected p for other seeds; null with one or two",
        "dissociation": "D by the ranking; null if all tasks share it",
        "ci_over": "of the area; the difference also over orders",
    },
)  # fmt: skip


def belief(agreement: pd.DataFrame, areas: pd.DataFrame, dissociation: pd.DataFrame) -> pd.DataFrame:
    """Return the table `belief`: agreement, pruning areas (top heads first) and dissociation of rankings.

    A row is a ranking with an area; columns of other tables are null where these lack it. For the task
    `mean`, agreement and the ends of its interval are means over tasks: the interval is no narrower than one
    for the mean.
    """
    areas = areas[areas["order"] == TOP]
    own = areas[areas["against"].isna()].rename(columns=AREAS)
    against = areas[areas["against"] == RANDOM].rename(columns=DIFFERENCES)
    parts = [
        against[[*BELIEF_KEY, *DIFFERENCES.values()]],
        dissociation.rename(columns=DISSOCIATIONS)[[*BELIEF_KEY, *DISSOCIATIONS.values()]],
        *(_with_truth(agreement, truth) for truth in TRUTHS),
    ]
    table = own[[*BELIEF_KEY, "n_seeds", *AREAS.values(), "ci_over"]]
    for part in parts:
        table = table.merge(part, how="left", on=BELIEF_KEY)
    return table[list(BELIEF.columns)]


def _with_truth(agreement: pd.DataFrame, truth: str) -> pd.DataFrame:
    """Return the agreement of every other measure with `truth`, by task and as the mean over tasks."""
    columns = [*KEY, "task", *AGREEMENT_COLUMNS]
    sides = [
        agreement.loc[agreement[side] == truth, [*columns, other]].rename(columns={other: "ranking"})
        for side, other in (("measure_a", "measure_b"), ("measure_b", "measure_a"))
    ]
    by_task = pd.concat(sides, ignore_index=True)
    means = by_task.groupby([*KEY, "ranking"], as_index=False)[AGREEMENT_COLUMNS].mean().assign(task=MEAN)
    names = {column: f"{truth}_{column}" for column in AGREEMENT_COLUMNS}
    return pd.concat([by_task, means], ignore_index=True)[[*BELIEF_KEY, *AGREEMENT_COLUMNS]].rename(
        columns=names
    )
