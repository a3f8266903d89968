"""Kinds of attention in maps of heads: lines between them, their names, numbers of their layers."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from headspec.plots import importance
from headspec.plots.drawing.heat_maps import divide, layer_name, number_layers

KINDS = {"encoder": 6, "decoder": 3, "cross": 3}


def axes():
    made = Figure().subplots()
    made.imshow(np.zeros((12, 4)), origin="lower")
    return made


def test_layers_of_every_kind_are_numbered_from_zero():
    one = axes()
    number_layers(one, KINDS)
    assert one.get_yticks().tolist() == [0, 2, 4, 6, 7, 8, 9, 10, 11]
    assert [label.get_text() for label in one.get_yticklabels()] == list("024012012")
    assert [layer_name(row, KINDS) for row in (0, 5, 6, 11)] == [
        "encoder 0",
        "encoder 5",
        "decoder 0",
        "cross 2",
    ]
    assert layer_name(7, None) == "7"


def test_lines_and_names_part_the_kinds():
    one, other, plain = axes(), axes(), axes()
    divide(one, KINDS, named=True)
    divide(other, KINDS, named=False)
    divide(plain, None, named=True)
    for each in (one, other):
        assert [line.get_ydata()[0] for line in each.get_lines()] == [5.5, 8.5]
    assert [(text.get_text(), text.get_position()[1]) for text in one.texts] == [
        ("encoder", 2.5), ("decoder", 7), ("cross", 10),
    ]  # fmt: skip
    assert not other.texts and not plain.texts and not plain.get_lines()


def test_a_map_of_importance_has_them_in_every_column():
    layer, head = (index.ravel() for index in np.indices((12, 4)))
    values = np.random.default_rng(0).random(48)
    table = pd.DataFrame({"task": "a", "fold": 0, "layer": layer, "head": head, "importance": values, "n": 1})
    figure = importance.draw_importance({0: table, 1: table}, ["a"], 0.25, KINDS)
    left, right = figure.axes[:2]
    assert len(left.get_lines()) == len(right.get_lines()) == 2
    assert not left.texts and [text.get_text() for text in right.texts] == list(KINDS)
    assert len(importance.draw_importance({0: table}, ["a"], 0.25).axes[0].get_lines()) == 0
