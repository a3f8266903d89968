"""Figures of the head atlas: what they show equals what the tables hold, and can be read."""

import itertools

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb, to_rgba

from headspec.config.measures import heads as head_measures
from headspec.config.methods import METHODS, NAMED
from headspec.plots.atlas import heads
from headspec.plots.atlas import rankings as ranking_figures
from headspec.plots.atlas.maps import (
    CHANGE_UNITS,
    DIFFERENCE_UNITS,
    TOKENS,
    draw_change,
    draw_confidence,
    draw_differences,
)
from headspec.plots.atlas.rankings import (
    PANELS,
    draw_agreement,
    draw_belief,
    draw_pruning_curves,
    ranking_look,
)
from headspec.plots.drawing.methods import BARS, FILLS, METHOD_MARKERS
from headspec.plots.drawing.style import number, wildcard_rows
from headspec.statistics.atlas.roles import majority_roles
from support.figures import LONG, SMALL, labelled, made, words

RUN = {"model": "minilm", "mixture": "all", "method": "tuned"}
LABELS = {name: measure.label for name, measure in head_measures.MEASURES.items()}
RANKINGS = list(head_measures.MEASURES.labels(head_measures.pruned(head_measures.rankings())))
PLACES = head_measures.places(head_measures.rankings())
METRICS = dict.fromkeys(SMALL, "accuracy")
MEASURES = ["importance", "ablation", "mean_ablation", *TOKENS]


def heads_table(seeds: int, draw: int = 0, layers: int = 6, in_layer: int = 12) -> pd.DataFrame:
    """Values of all measures on two tasks, half of ablations below 0."""
    places = dict(layer=range(layers), head=range(in_layer))
    table = made("heads", draw, **RUN, **places, seed=range(seeds), task=SMALL, measure=MEASURES)
    columns = ["value", "ci_low", "ci_high"]
    table.loc[table["measure"].str.endswith("ablation"), columns] -= 0.5
    return table


def roles_table(seeds: int) -> pd.DataFrame:
    """A tenth of the heads are positional, an eighth syntactic, a few are for rare words."""
    table = made("head_roles", **RUN, seed=range(seeds), layer=range(6), head=range(12))
    role = np.random.default_rng(1).choice(list(heads.ROLES), 72, p=[0.1, 0.12, 0.04, 0.74])
    table["role"] = np.where(table["rate"] < 0.95, role[12 * table["layer"] + table["head"]], "none")
    table["relation"] = np.where(table["role"] == "syntactic", "obj", None)
    return table


def agreement_table(measures: list[str]) -> pd.DataFrame:
    pairs = itertools.combinations(sorted(measures), 2)
    return pd.concat(
        made("agreement", i, **RUN, task=SMALL, measure_a=a, measure_b=b) for i, (a, b) in enumerate(pairs)
    )


def differences_table(tasks: list[str], method: str = "tuned") -> pd.DataFrame:
    pairs = [(tasks[0], tasks[1])] if len(tasks) == 2 else [(task, "others") for task in tasks]
    places = dict(measure=list(DIFFERENCE_UNITS), layer=range(6), head=range(12))
    table = pd.concat(
        made("task_differences", i, **RUN | {"method": method}, **places, task=task, against=other)
        for i, (task, other) in enumerate(pairs)
    )
    return table.assign(difference=table["difference"] - 0.5)


def mean_map(table: pd.DataFrame, task: str, measure: str) -> np.ndarray:
    """(layers, heads), independent of the code under test."""
    rows = table[(table["task"] == task) & (table["measure"] == measure)]
    layers, in_layer = rows["layer"].max() + 1, rows["head"].max() + 1
    return rows.sort_values(["layer", "head"])["value"].to_numpy().reshape(layers, in_layer, -1).mean(axis=-1)


def test_heads_have_the_area_of_their_importance_and_the_shape_of_their_role():
    table, roles = heads_table(3), roles_table(3)
    figure = heads.draw_roles(table, roles, SMALL)
    looks = {to_rgba(look["facecolor"]): (role, look["area"]) for role, look in heads.ROLES.items()}
    for axes, task in zip(figure.axes, SMALL, strict=True):
        assert axes.get_title() == task
        share = mean_map(table, task, "importance")
        drawn, areas = {}, np.zeros(share.shape)
        for scatter in axes.collections:
            places = scatter.get_offsets().astype(int)
            for (head, layer), area in zip(places, scatter.get_sizes(), strict=False):
                drawn[layer, head], equal = looks[tuple(scatter.get_facecolor()[0])]
                areas[layer, head] = area / equal
        assert drawn == majority_roles(roles)["role"].to_dict() and len(drawn) == 72
        expected = np.maximum(share / share.max() * areas.max(), heads.SMALLEST**2)
        np.testing.assert_allclose(areas, expected)
        assert areas.max() > 10 * heads.SMALLEST**2


def test_names_of_relations_stand_below_their_heads():
    roles = roles_table(1)
    axes = heads.draw_roles(heads_table(1), roles, SMALL[:1]).axes[0]
    relations = roles.dropna(subset="relation").set_index(["head", "layer"])["relation"]
    assert {text.xy: text.get_text() for text in axes.texts} == relations.to_dict()  # room for all


def test_ablation_is_sorted_and_marks_intervals_without_zero():
    table = heads_table(2)
    figure = heads.draw_ablation(table, SMALL)
    panels = itertools.product(SMALL, ["ablation", "mean_ablation"])
    for axes, (task, measure) in zip(figure.axes, panels, strict=True):
        assert (axes.get_title("left"), axes.get_title("right")) == (task, heads.REPLACED[measure])
        rows = table[(table["task"] == task) & (table["measure"] == measure)]
        means = rows.groupby(["layer", "head"])[["value", "ci_low", "ci_high"]].mean()
        means = means.sort_values("value", ascending=False)
        drawn = [line for line in axes.lines if line.get_xydata().size > 4]
        dots = {line.get_markerfacecolor(): line.get_xydata() for line in drawn}
        assert set(dots) == {"black", "white"}
        every = np.concatenate(list(dots.values()))
        np.testing.assert_allclose(every[every[:, 0].argsort(), 1], means["value"])
        differs = (means["ci_low"] > 0) | (means["ci_high"] < 0)
        np.testing.assert_array_equal(np.sort(dots["black"][:, 0]), np.flatnonzero(differs))
        lines = np.concatenate([one.get_segments() for one in axes.collections])
        lines = lines[lines[:, 0, 0].argsort()]
        np.testing.assert_allclose(lines[:, :, 1], means[["ci_low", "ci_high"]])
        strongest = np.flatnonzero(means["ci_low"] > 0)[:5]
        ends = {"{}.{}".format(*means.index[rank]): (rank, means["ci_high"].iloc[rank]) for rank in strongest}
        assert {text.get_text(): tuple(text.xy) for text in axes.texts} == ends
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()


def test_one_kind_of_ablation_and_no_strong_head():
    table = heads_table(1, 0, 2, 2)
    table = table[table["measure"] == "ablation"].assign(value=0.0, ci_low=-0.1, ci_high=0.1)
    figure = heads.draw_ablation(table, SMALL)
    assert len(figure.axes) == 2 and not any(axes.texts for axes in figure.axes)


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


def test_confidence_maps_share_a_scale():
    table = heads_table(2)
    figure = draw_confidence(table, SMALL)
    maps = [axes for axes in figure.axes if axes.images]
    columns = ("confidence_with_separator", "confidence", "confidence_no_separator")
    for axes, (task, measure) in zip(maps, itertools.product(SMALL, columns), strict=True):
        np.testing.assert_allclose(axes.images[0].get_array(), mean_map(table, task, measure))
    assert len({axes.images[0].get_clim() for axes in maps}) == 1
    assert [axes.get_title() for axes in maps[:3]] == list(TOKENS.values())


def test_change_is_after_minus_before_with_marked_decreases():
    before, after = heads_table(2), heads_table(2, 1)
    figure = draw_change(pd.concat([before.assign(method="before"), after]), "tuned", "before", SMALL, LABELS)
    maps = [axes for axes in figure.axes if axes.images and axes.get_xlabel() != "decrease"][:6]
    scales = {}
    for axes, (task, measure) in zip(maps, itertools.product(SMALL, CHANGE_UNITS), strict=True):
        old, new = (mean_map(table, task, measure) for table in (before, after))
        if measure == "importance":
            old, new = 100 * old / old.sum(), 100 * new / new.sum()
        (image,) = axes.images
        np.testing.assert_allclose(image.get_array(), new - old)
        low, high = image.get_clim()
        assert low == -high
        assert scales.setdefault(measure, high) == high >= np.abs(new - old).max()
        layers, in_layer = np.nonzero(new - old < -0.1 * high)
        np.testing.assert_array_equal(axes.collections[0].get_offsets(), np.column_stack([in_layer, layers]))
        assert len(layers) > 3

    table = heads_table(1, 0, 2, 2)
    figure = draw_change(pd.concat([table.assign(method="before"), table]), "tuned", "before", SMALL, LABELS)
    assert all((axes.images[0].get_array() == 0).all() for axes in figure.axes[:6]), "no change is white"


@pytest.mark.parametrize(("n_seeds", "p"), [(2, "p_holm"), (3, "p_seeds_holm")])
def test_differences_are_marked_by_their_sign_where_they_are_clear_in_a_row_for_each_task(n_seeds, p):
    table = differences_table(SMALL).assign(n_seeds=n_seeds)
    figure = draw_differences(table, LABELS)
    maps = [axes for axes in figure.axes if axes.images and axes.get_title()]
    assert [axes.get_title() for axes in maps] == [LABELS[measure] for measure in DIFFERENCE_UNITS]
    assert maps[0].get_ylabel() == "sentiment\n− topic-pair\nlayer"
    for axes, (measure, (_, factor)) in zip(maps, DIFFERENCE_UNITS.items(), strict=True):
        rows = table[table["measure"] == measure]
        expected = factor * rows.sort_values(["layer", "head"])["difference"].to_numpy().reshape(6, 12)
        np.testing.assert_allclose(axes.images[0].get_array(), expected)
        low, high = axes.images[0].get_clim()
        assert low == -high == pytest.approx(-np.abs(expected).max())
        for label, sign in (("more, p < 0.05", 1), ("less, p < 0.05", -1)):
            (marks,) = labelled(axes, label)
            clear = rows[(rows[p] < 0.05) & (np.sign(rows["difference"]) == sign)]
            assert {*map(tuple, marks.get_offsets())} == {*zip(clear["head"], clear["layer"], strict=True)}
            assert len(clear) > 1
    figure = draw_differences(differences_table(LONG), LABELS)
    names = [axes.get_ylabel().split("\n")[:2] for axes in figure.axes if axes.get_ylabel()]
    assert names == [[task, "− others"] for task in LONG]


def test_figures_are_of_one_run():
    table = pd.concat([differences_table(SMALL), differences_table(SMALL, "frozen")])
    wanted = wildcard_rows(table, RUN | {"seed": 0})
    assert set(wanted["method"]) == {"tuned"} and len(wanted) == len(table) / 2


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


def test_roles_and_methods_are_told_apart_without_colour():
    roles = list(heads.ROLES.values())
    assert len({look["marker"] for look in roles}) == len(roles)
    lightness = np.sort([np.dot(to_rgb(look["facecolor"]), (0.2126, 0.7152, 0.0722)) for look in roles])
    assert min(np.diff(lightness)) > 0.1
    assert list(METHOD_MARKERS) == list(METHODS) and {*NAMED} <= {*BARS} & {*FILLS}
    assert len({look["marker"] for look in METHOD_MARKERS.values()}) == len(METHODS)
