"""The table of which ranking to believe: every value is that of the table it is from."""

import pandas as pd
import pytest

from headspec.statistics.atlas.rankings_belief import BELIEF, belief
from support.figures import frame

RUN = {"model": "m", "mixture": "a+b", "method": "tuned", "n_seeds": 1, "ci_over": "examples"}


@pytest.fixture
def rows() -> pd.DataFrame:
    pairs = [("ablation", "importance", 0.2), ("ablation", "ablation_size", 0.3),
             ("ablation_size", "importance", 0.9), ("confidence", "importance", 0.7)]  # fmt: skip
    agreement = [
        RUN | dict(task=task, measure_a=a, measure_b=b, spearman=value + more,
                   spearman_low=value + more - 0.1, spearman_high=value + more + 0.2,
                   top_overlap=value / 2, top_overlap_low=0.0, top_overlap_high=0.6)
        for task, more in (("a", 0.0), ("b", 0.05)) for a, b, value in pairs
    ]  # fmt: skip
    areas, found = [], []
    for i, task in enumerate(("a", "b", "mean")):
        for j, ranking in enumerate(("importance", "ablation", "importance_all", "random")):
            value = 0.5 + i / 10 + j / 100
            row = RUN | dict(task=task, ranking=ranking, order="top")
            areas.append(row | dict(value=value, ci_low=value - 0.01, ci_high=value + 0.02))
            areas.append(areas[-1] | dict(order="bottom", value=0.9))
            if ranking != "random":
                less = dict(against="random", value=-0.1, ci_low=-0.2, ci_high=0.1 * j, p_holm=0.01 * (j + 1),
                            p_seeds_holm=0.1 * (j + 1))  # fmt: skip
                areas.append(row | less)
                areas.append(row | less | dict(against="importance", value=9.0))
            if j < 2:
                d = dict(dissociation=value / 10, ci_low=0.0, ci_high=0.1, p_holm=0.5, at_chance=bool(j))
                found.append(row | d)
    tables = {"agreement": agreement, "pruning_areas": areas, "ranking_dissociation": found}
    table = belief(*(frame(name, made) for name, made in tables.items()))
    assert list(table.columns) == list(BELIEF.columns) and len(table) == 3 * 4
    return table.set_index(["task", "ranking"])


@pytest.mark.parametrize(
    ("task", "ranking", "expected"),
    [
        ("b", "importance", {
            "ablation_spearman": 0.25, "ablation_spearman_low": 0.15, "ablation_spearman_high": 0.45,
            "ablation_top_overlap": 0.1, "ablation_top_overlap_high": 0.6,
            "ablation_size_spearman": 0.95,  # as the second of two measures
            "area": 0.6, "area_low": 0.59, "area_high": 0.62, "difference": -0.1, "difference_low": -0.2,
            "difference_high": 0, "difference_p_holm": 0.01, "difference_p_seeds_holm": 0.1,
            "dissociation": 0.06, "dissociation_low": 0,
            "dissociation_high": 0.1, "dissociation_p_holm": 0.5, "at_chance": False,
        }),
        # agreement of the mean over tasks is the mean of agreement
        ("mean", "importance", {"ablation_spearman": 0.225, "ablation_spearman_low": 0.125,
                                "ablation_spearman_high": 0.425, "area": 0.7}),
        # what a ranking lacks is missing
        ("a", "ablation", {"ablation_spearman": None, "ablation_size_spearman": 0.3, "at_chance": True}),
        ("a", "importance_all", {"ablation_spearman": None, "dissociation": None, "at_chance": None,
                                 "difference": -0.1, "difference_high": 0.2, "difference_p_holm": 0.03}),
        ("a", "random", {"area": 0.53, "difference": None, "dissociation": None}),
    ],
)  # fmt: skip
def test_a_row_has_what_three_tables_say_of_a_ranking(rows, task, ranking, expected):
    found = rows.loc[(task, ranking), list(expected)]
    values = [None if pd.isna(value) else value for value in found]
    assert values == [pytest.approx(value) for value in expected.values()]
