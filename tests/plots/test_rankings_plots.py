"""Figures of rankings of heads: what they show equals what the tables hold, and can be read."""

import itertools

import numpy as np
import pandas as pd
import pytest

from headspec.config.measures import heads as head_measures
from headspec.plots.atlas import rankings as ranking_figures
from headspec.plots.atlas.rankings import (
    PANELS,
    draw_agreement,
    draw_belief,
    draw_pruning_curves,
    ranking_look,
)
from headspec.plots.drawing.style import number
from support.figures import SMALL, labelled, made, words

RUN = {"model": "minilm", "mixture": "all", "method": "tuned"}
LABELS = {name: measure.label for name, measure in head_measures.MEASURES.items()}
RANKINGS = list(head_measures.MEASURES.labels(head_measures.pruned(head_measures.rankings())))
PLACES = head_measures.places(head_measures.rankings())
METRICS = dict.fromkeys(SMALL, "accuracy")


def agreement_table(measures: list[str]) -> pd.DataFrame:
    pairs = itertools.combinations(sorted(measures), 2)
    return pd.concat(
        made("agreement", i, **RUN, task=SMALL, measure_a=a, measure_b=b) for i, (a, b) in enumerate(pairs)
    )


@pytest.mark.parametrize("orders", [["top"], ["top", "bottom"]])
def test_lines_are_the_curves_of_the_rankings_in_a_panel_for_each_order(orders):
    fractions = list(np.linspace(0, 1, 5))
    table = made("pruning_curves", **RUN, task=SMALL, ranking=RANKINGS, order=orders, fraction=fractions)
    label = np.arange(10) % 2  # two labels, equally frequent
    predictions = [pd.DataFrame({"task": task, "label": label, "prediction": label}) for task in SMALL]
    unpruned = pd.concat(predictions).assign(ranking="random", draw=0, fraction=0.0)
    matched = table[(table["order"] == "top") & (table["ranking"] == RANKINGS[0])]
    matched = matched.assign(order="same_layers", value=matched["value"] / 2)
    table = pd.concat([table, matched], ignore_index=True)
    figure = draw_pruning_curves(table, unpruned, SMALL, METRICS, LABELS, PLACES)
    for axes, (task, order) in zip(figure.axes, itertools.product(SMALL, orders), strict=True):
        assert axes.get_title() == (task if len(orders) == 1 else f"{task}, {order} heads first")
        assert axes.get_ylabel() == "accuracy (%)"
        panel = table[(table["task"] == task) & (table["order"] == order)]
        for ranking in RANKINGS:
            rows = panel[panel["ranking"] == ranking]
            (line,) = labelled(axes, "random order, mean" if ranking == "random" else LABELS[ranking])
            np.testing.assert_allclose(line.get_xydata(), 100 * rows[["fraction", "value"]])
        beside = labelled(axes, f"same layers as {LABELS[RANKINGS[0]]}, random")
        assert len(beside) == (order == "top")
        for line in beside:
            rows = matched[matched["task"] == task]
            np.testing.assert_allclose(line.get_xydata(), 100 * rows[["fraction", "value"]])
        (band,) = labelled(axes, "range of random orders")
        spread = panel[panel["ranking"] == "random"]
        ends = 100 * spread["draws_low"].min(), 100 * spread["draws_high"].max()
        ys = band.get_paths()[0].vertices[:, 1]
        assert (ys.min(), ys.max()) == pytest.approx(ends)
        assert labelled(axes, "chance")[0].get_ydata()[0] == pytest.approx(50)


def test_all_rankings_are_told_apart_without_colour():
    n = len(head_measures.MEASURES)
    looks = [ranking_look(place) for place in range(n)]
    fills = [(look["markerfacecolor"] == "white", look["fillstyle"]) for look in looks]
    assert len({(look["marker"], fill) for look, fill in zip(looks, fills, strict=True)}) == n
    assert all(a["linestyle"] != b["linestyle"] for a, b in itertools.pairwise(looks))


def cell_texts(figure) -> dict[tuple[int, int], list[str]]:
    """(row, column): what is written there, from above."""
    found: dict[tuple[int, int], list[str]] = {}
    for text in figure.axes[0].texts:
        x, y = text.get_position()
        found.setdefault((int(y), int(x)), []).append(text.get_text())
    return found


def test_agreement_has_correlation_below_and_overlap_above_the_diagonal():
    measures = ["confidence", "ablation", "importance"]  # shown in the order of LABELS
    table = agreement_table(measures)
    figure = draw_agreement(table, LABELS)
    assert words(figure.axes[0].get_yticklabels()) == ["importance", "ablation", "confidence"]
    shown, image = cell_texts(figure), figure.axes[0].images[0].get_array()
    assert len(shown) == 6 and np.ma.getmaskarray(image).sum() == 3
    rows = table[(table["measure_a"] == "ablation") & (table["measure_b"] == "importance")]
    for cell, column in (((1, 0), "spearman"), ((0, 1), "top_overlap")):
        low, high = (number(value).replace("0.", ".") for value in (rows[column].min(), rows[column].max()))
        assert shown[cell] == [number(rows[column].mean()), f"{low}, {high}"]  # the range over tasks
        assert image[cell] == pytest.approx(rows[column].mean())
    shown = cell_texts(draw_agreement(table[table["task"] == SMALL[0]], LABELS))
    row = rows.iloc[0]
    low, high = (number(row[f"spearman_{end}"]).replace("0.", ".") for end in ("low", "high"))
    assert shown[1, 0] == [number(row["spearman"]), f"{low}, {high}"]  # the interval


def test_many_measures_leave_no_room_for_small_print(monkeypatch):
    monkeypatch.setattr(ranking_figures, "PAGE", 5)
    names = {f"m{i}": f"measure of heads {i}" for i in range(20)}
    shown = cell_texts(draw_agreement(agreement_table(list(names)), names))
    assert {len(written) for written in shown.values()} == {1}


def belief_table(*mixtures: str) -> pd.DataFrame:
    """Table 'belief', with rows of a task that are not shown."""
    keys = dict(mixture=list(mixtures), method=["tuned", "frozen"], ranking=RANKINGS, task=["mean", "sst2"])
    table = made("belief", **keys, model="minilm", ci_over="examples", unpruned_at_chance=False)
    lacking = {"dissociation": ["random", "importance_all"], "ablation": ["random", "ablation"]}
    for start, rankings in lacking.items():
        columns = [column for column in table if column.startswith(start)]
        table[columns] -= 0.5 * (start == "ablation")
        table.loc[table["ranking"].isin(rankings), columns] = np.nan
    return table.assign(at_chance=table["at_chance"] & table["dissociation"].notna())


@pytest.mark.parametrize(
    ("n_seeds", "p", "key"), [(2, "_p_holm", " in these runs"), (3, "_p_seeds_holm", "")]
)
def test_belief_shows_agreement_areas_and_dissociation_sorted_by_area(n_seeds, p, key):
    table = belief_table("a+b", "c").assign(n_seeds=n_seeds)
    figure = draw_belief(table, LABELS, ["c", "a+b"])
    means, expected = table[table["task"] == "mean"], []
    for mixture in ("c", "a+b"):
        block = means[(means["mixture"] == mixture) & (means["method"] == "tuned")].sort_values("area")
        expected += [LABELS[ranking] for ranking in block["ranking"]]
    assert words(figure.axes[0].get_yticklabels()) == expected
    assert words(figure.texts) == ["minilm, c", "minilm, a+b"]
    assert f"hollow: no clear difference{key}" in words(figure.legends[0].get_texts())
    for axes, (column, (_, factor)) in zip(figure.axes, PANELS.items(), strict=True):
        shown = means.dropna(subset=column)
        if "spearman" in column:
            clear = (shown[f"{column}_low"] > 0) | (shown[f"{column}_high"] < 0)
        else:
            clear = shown[{"area": "difference"}.get(column, column) + p] < 0.05
        dots = [line for line in axes.lines if line.get_markersize() == 4 and line.get_xdata().size]
        hollow = [x for line in dots if line.get_markerfacecolor() == "white" for x in line.get_xdata()]
        filled = [x for line in dots if line.get_markerfacecolor() != "white" for x in line.get_xdata()]
        np.testing.assert_allclose(np.sort(hollow), np.sort(factor * shown.loc[~clear, column]))
        np.testing.assert_allclose(np.sort(filled), np.sort(factor * shown.loc[clear, column]))
        assert hollow and filled
        lines = np.concatenate([one.get_segments() for one in labelled(axes, "interval over examples")])
        np.testing.assert_allclose(np.sort(lines[:, 0, 0]), np.sort(factor * shown[f"{column}_low"]))
        np.testing.assert_allclose(np.sort(lines[:, 1, 0]), np.sort(factor * shown[f"{column}_high"]))
    keys = [key for key in words(figure.legends[0].get_texts()) if "interval" in key]
    assert keys == ["interval over examples"]
    *_, area, d = figure.axes
    daggers = [x for line in labelled(d, "at chance: D means little") for x in line.get_xdata()]
    assert len(daggers) == means["at_chance"].eq(True).sum() > 0
    random = means[(means["ranking"] == "random") & (means["method"] == "tuned")]["area"]
    lines = [one.get_segments()[0][0, 0] for one in labelled(area, "random")]
    np.testing.assert_allclose(lines, 100 * random)


def test_belief_without_any_dissociation():
    table = belief_table("sst2")
    table[[column for column in table if column.startswith("dissociation")]] = np.nan
    *_, d = (axes := draw_belief(table.assign(at_chance=None), LABELS, []).axes)
    assert len(axes[0].get_yticklabels()) == len(RANKINGS)
    assert not labelled(d, "interval over examples")
