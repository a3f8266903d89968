"""The table of which ranking to believe: every value is that of the table it is from."""

import pandas as pd
import pytest

from headspec.statistics.atlas.belief import BELIEF, belief
from support.figures import frame

RUN = {"model": "m", "mixture": "a+b", "method": "tuned", "n_seeds": 1, "ci_over": "examples"}


def tables() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
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
                less = dict(against="random", value=-0.1, ci_low=-0.2, ci_high=0.1 * j, p_holm=0.01 * (j + 1))
                areas.append(row | less)
                areas.append(row | less | dict(against="importance", value=9.0))
            if j < 2:
                d = dict(dissociation=value / 10, ci_low=0.0, ci_high=0.1, p_holm=0.5, at_chance=bool(j))
                found.append(row | d)
    return frame("agreement", agreement), frame("pruning_areas", areas), frame("ranking_dissociation", found)


def test_a_row_has_what_three_tables_say_of_a_ranking():
    table = belief(*tables())
    assert list(table.columns) == list(BELIEF.columns) and len(table) == 3 * 4
    rows = table.set_index(["task", "ranking"])
    row = rows.loc[("b", "importance")]
    assert row["ablation_spearman"] == pytest.approx(0.25) and row["ablation_top_overlap"] == 0.1
    assert row[["ablation_spearman_low", "ablation_spearman_high"]].tolist() == pytest.approx([0.15, 0.45])
    assert row["ablation_size_spearman"] == pytest.approx(0.95)  # as the second of two measures
    assert row[["area", "area_low", "area_high"]].tolist() == pytest.approx([0.6, 0.59, 0.62])
    assert row[["difference", "difference_low", "difference_p_holm"]].tolist() == [-0.1, -0.2, 0.01]
    assert row["dissociation"] == pytest.approx(0.06) and row["dissociation_p_holm"] == 0.5
    assert not row["at_chance"] and rows.loc[("b", "ablation"), "at_chance"]


def test_the_mean_over_tasks_has_means_of_agreement():
    rows = belief(*tables()).set_index(["task", "ranking"])
    row = rows.loc[("mean", "importance")]
    names = ["ablation_spearman", "ablation_spearman_low", "ablation_spearman_high"]
    assert row[names].tolist() == pytest.approx([0.225, 0.125, 0.425])
    assert row["area"] == pytest.approx(0.7)


def test_what_a_ranking_lacks_is_missing():
    rows = belief(*tables()).set_index(["task", "ranking"])
    assert pd.isna(rows.loc[("a", "ablation"), "ablation_spearman"])
    assert rows.loc[("a", "ablation"), "ablation_size_spearman"] == pytest.approx(0.3)
    shared = rows.loc[("a", "importance_all")]
    assert shared[["ablation_spearman", "dissociation", "at_chance"]].isna().all()
    assert shared["difference"] == -0.1
    assert rows.loc[("a", "random"), ["difference", "dissociation"]].isna().all()
