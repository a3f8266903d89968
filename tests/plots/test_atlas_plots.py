"""Figures of the head atlas: what they show equals what the tables hold, and can be read."""

import itertools

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb, to_rgba

from headspec.config.measures import heads as head_measures
from headspec.config.methods import METHODS, NAMED
from headspec.plots.atlas import heads
from headspec.plots.atlas.maps import (
    CHANGE_UNITS,
    DIFFERENCE_UNITS,
    TOKENS,
    draw_change,
    draw_confidence,
    draw_differences,
)
from headspec.plots.drawing.methods import BARS, FILLS, METHOD_MARKERS
from headspec.plots.drawing.style import wildcard_rows
from headspec.statistics.atlas.roles import majority_roles
from support.figures import LONG, SMALL, labelled, made

RUN = {"model": "minilm", "mixture": "all", "method": "tuned"}
LABELS = {name: measure.label for name, measure in head_measures.MEASURES.items()}
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


def test_roles_and_methods_are_told_apart_without_colour():
    roles = list(heads.ROLES.values())
    assert len({look["marker"] for look in roles}) == len(roles)
    lightness = np.sort([np.dot(to_rgb(look["facecolor"]), (0.2126, 0.7152, 0.0722)) for look in roles])
    assert min(np.diff(lightness)) > 0.1
    assert list(METHOD_MARKERS) == list(METHODS) and {*NAMED} <= {*BARS} & {*FILLS}
    assert len({look["marker"] for look in METHOD_MARKERS.values()}) == len(METHODS)
