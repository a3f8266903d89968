"""Figures of pruning methods to keep a number of heads: what is drawn is what the tables have."""

import itertools

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb

from headspec.config import pruning_methods
from headspec.config.runs import PrunedRun, Run
from headspec.plots import kept_heads
from headspec.plots.gates import MISSED, draw_budgets, draw_learning, draw_overlap
from headspec.statistics.kept_heads import gates_table
from support.figures import labelled, words

LABELS = pruning_methods.PRUNING_METHODS.labels(["whole", "importance", "l0", "subset"])
PLACES = pruning_methods.PRUNING_METHODS.places(LABELS)
METRICS = {"a": "accuracy", "b": "f1"}
LAYERS, HEADS = 2, 4


def budgets_table() -> pd.DataFrame:
    """Own heads by `l0` miss their target at a quarter; the whole model and `l0` have not learnt `a`."""
    cells = [("whole", 1.0, 8, None), ("importance", 0.25, 2, "whole"), ("importance", 0.5, 4, "whole"),
             ("l0", 0.25, 2, "importance"), ("l0", 0.25, 2, "whole"), ("l0", None, 5, "whole")]  # fmt: skip
    rows = [
        {"scope": scope, "way": method, "fraction": fraction, "penalty": None, "task": task,
         "metric": metric, "against": against, "heads": heads,
         "value": (0.5 + heads / 20) - 0.1 * (task == "a"),
         "missed": 0.0 if method == "l0" else np.nan, "unpruned_at_chance": task == "a"}
        for (method, fraction, heads, against), scope in itertools.product(cells, ("shared", "per_task"))
        for task, metric in (("a", "accuracy"), ("b", "f1"), ("b", "accuracy"), ("mean", "mean"))
    ]  # fmt: skip
    frame = pd.DataFrame(rows)
    missed = frame["way"].eq("l0") & frame["fraction"].eq(0.25) & frame["scope"].eq("per_task")
    frame.loc[missed, "missed"] = 1 / 3
    return frame.assign(value_low=frame["value"] - 0.02, value_high=frame["value"] + 0.02)


def gates() -> pd.DataFrame:
    """Three seeds keep heads 0, 0 or 1 of each layer at the end; `l0` learns, the others do not."""
    layer, head = (index.ravel() for index in np.indices((LAYERS, HEADS)))
    of = {}
    for method, seed in itertools.product(("whole", "importance", "l0"), range(3)):
        frames = []
        for step in (0, 5, 10) if method == "l0" else (10,):
            chosen = (head == (seed == 2)) if step == 10 else (head == 3)
            frame = pd.DataFrame({"task": None, "step": step, "layer": layer, "head": head, "gate": 1.0})
            probability = (10 - step) / 10 if method == "l0" else np.nan
            frames.append(frame.assign(open_probability=probability, kept=chosen | (method == "whole")))
        run = Run("m", "a+b", ("a", "b"), "tuned", seed)
        of[PrunedRun(run, method, "shared", 1.0 if method == "whole" else 0.25)] = pd.concat(frames)
    return gates_table(of)


def test_lines_have_the_values_of_the_main_metrics_and_marks_of_what_was_missed_or_not_learnt():
    figure = draw_budgets(budgets_table(), METRICS, LABELS, PLACES)
    names = ["a ×", "b", "mean"]
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == [f"{task}, {whose} heads" for whose in ("shared", "own") for task in names]
    axes = figure.axes[0]
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert lines["whole model"].get_ydata()[0] == pytest.approx(80)
    line = lines["importance, at once"]
    assert [*line.get_xdata()] == [2, 4] and line.get_ydata() == pytest.approx([50, 60])
    drawn = [one for one in axes.get_lines() if len(one.get_xdata())]
    hollow = [one for one in drawn if one.get_markerfacecolor() == "white"]
    assert hollow[0].get_xdata() == [5] and hollow[0].get_ydata() == pytest.approx([65])
    assert not {"subset"} & lines.keys()
    pluses = [labelled(axes, MISSED) for axes in figure.axes]
    assert [len(of_panel) for of_panel in pluses] == [0, 0, 0, 1, 1, 1]
    (plus,) = pluses[3]
    assert plus.get_xdata() == [2] and plus.get_ydata() == pytest.approx([50])
    texts = words(figure.legends[0].get_texts())
    assert MISSED in texts and "after a task: unpruned model at chance" in texts


def test_ways_that_keep_one_number_stand_at_it_with_whole_intervals_of_their_own_width():
    table = budgets_table()
    own = table["fraction"].isin([0.25, 1.0]) & table["scope"].eq("per_task")
    figure = draw_budgets(table[own].assign(value_low=-0.2, value_high=0.99), METRICS, LABELS, PLACES)
    assert [axes.get_title() for axes in figure.axes] == ["a ×", "b", "mean"]
    for axes in figure.axes:
        at_once, l0 = (line for line in axes.get_lines() if line.get_label() in ("importance, at once", "L0"))
        assert at_once.get_xdata() == l0.get_xdata() == [2]
        upright = [lines for lines in axes.collections if isinstance(lines, LineCollection)]
        assert [lines.get_segments()[0][:, 0].tolist() for lines in upright] == [[2, 2]] * 2
        first, second = (lines.get_linewidth()[0] for lines in upright)
        assert first > second > 0, "neither hides the other"
        assert axes.get_ylim()[0] <= 0 and axes.get_ylim()[1] > 99, "a share is not below 0"


def test_three_seeds_are_the_three_colours_of_a_picture():
    table = gates()
    figure = kept_heads.draw_kept_heads(table, LABELS, [])
    at_once, mean = (axes.get_images()[0].get_array() for axes in figure.axes[:2])
    assert at_once.shape == (LAYERS, HEADS, 3)
    assert at_once[0, :3].tolist() == [[0, 0, 1], [1, 1, 0], [1, 1, 1]]  # 255 (1 - kept)
    assert mean[0].tolist() == pytest.approx([1 / 3, 2 / 3, 1, 1])
    (key,) = figure.legends
    colours = [to_rgb(handle.get_markerfacecolor()) for handle in key.legend_handles]
    keys = dict(zip(words(key.get_texts()), colours, strict=True))
    shown = {name: keys[name] for name in ("first and second", "the third", "no seed keeps it")}
    assert list(shown.values()) == [(0, 0, 1), (1, 1, 0), (1, 1, 1)] and len({*colours}) == len(colours)
    labels = [axes.get_ylabel() for axes in figure.axes if axes.get_ylabel()]
    assert labels == ["importance, at once", "L0"]  # without the whole model
    two = kept_heads.draw_kept_heads(table[table["seed"] < 2], LABELS, []).axes[0].get_images()[0].get_array()
    assert two.shape == (LAYERS, HEADS) and two[0].tolist() == [0, 1, 1, 1]  # grey


def test_the_course_of_learning():
    opened, final = (axes.get_lines() for axes in draw_learning(gates(), LABELS, PLACES).axes)
    assert [line.get_label() for line in opened] == ["L0"]
    assert opened[0].get_xdata().tolist() == [0, 5, 10]
    assert opened[0].get_ydata() == pytest.approx([8, 4, 0])
    assert final[0].get_ydata() == pytest.approx([0, 0, 100])


def test_overlap_stands_beside_what_layers_give():
    rows = [
        {"scope": "shared", "way": method, "fraction": fraction, "what": what, "within": a, "a": a, "b": a,
         "jaccard": value, "jaccard_by_layer": 0.2, "p_holm": p}
        for method, fraction, value, p in (("l0", 0.25, 0.7, 0.01), ("l0", None, 0.3, 0.5))
        for what, a in (("seeds", "mean"), ("tasks", "mean"), ("seeds", "1"))
    ]  # fmt: skip
    figure = draw_overlap(pd.DataFrame(rows), LABELS)
    assert [axes.get_title() for axes in figure.axes] == ["between seeds", "between tasks"]
    assert words(figure.axes[0].get_yticklabels()) == ["L0, 25 %", "L0, open"]
    points = [line for line in figure.axes[0].get_lines() if line.get_marker() == "D"]
    assert [line.get_xdata()[0] for line in points] == [0.7, 0.3]
    assert [line.get_markerfacecolor() for line in points] == ["black", "white"]


def test_kinds_that_are_kept_have_their_shares_and_layers():
    cells = [("whole", 1.0, 12), ("l0", 0.25, 3), ("l0", None, 6), ("importance", 0.25, 3)]
    rows = [
        {"scope": "shared", "task": None, "way": method, "fraction": fraction, "kind": kind,
         "against": against, "heads": heads, "share": heads / 12 - (kind == "encoder") * 0.1,
         "depth": heads - 12.0}
        for method, fraction, heads in cells
        for kind, against in (("encoder", None), ("cross", None), ("cross", "encoder"))
    ]  # fmt: skip
    frame = pd.DataFrame(rows)
    for value in ("share", "depth"):
        frame[f"{value}_low"], frame[f"{value}_high"] = frame[value] - 0.05, frame[value] + 0.05
    figure = kept_heads.draw_kept_kinds(frame, LABELS, [])
    share, depth = figure.axes[1], figure.axes[3]
    assert [axes.get_title() for axes in figure.axes] == ["importance, at once", "L0", "", ""]
    lines = {line.get_label(): line for line in share.get_lines()}
    assert list(lines) == ["encoder", "cross"]
    assert lines["cross"].get_ydata() == pytest.approx([25, 50, 100])
    assert lines["encoder"].get_ydata() == pytest.approx([15, 40, 90])
    assert lines["cross"].get_xdata() == pytest.approx([3, 6, 12], abs=0.1)
    assert depth.get_lines()[0].get_ydata() == pytest.approx([-9, -6, 0])
    ends = [line.get_segments() for line in share.collections]
    assert ends[1][0][:, 1] == pytest.approx([20, 30])
    (alone, _) = kept_heads.draw_kept_kinds(frame[frame["kind"] == "encoder"], LABELS, []).axes
    assert alone.get_lines()[0].get_ydata() == pytest.approx([-9, 0])


def role_counts(after: float) -> pd.DataFrame:
    cells = [("whole", 1.0, 8), ("l0", 0.25, 2), ("l0", 0.5, 4), ("importance", 0.25, 2)]
    rows = [
        {"scope": scope, "task": task, "way": method, "fraction": fraction, "role": role, "heads": heads,
         "kept": heads / 2 + (role == "syntactic"), "kept_least": 0, "kept_most": heads,
         "kept_by_layer": heads / 4, "p_holm": 0.01 if fraction == 0.5 else np.nan,
         "after": after if method in ("whole", "l0") else np.nan}
        for method, fraction, heads in cells
        for scope, task in (("shared", None), ("per_task", "a"), ("per_task", "b"))
        for role in ("positional", "syntactic")
    ]  # fmt: skip
    return pd.DataFrame(rows)


@pytest.mark.parametrize("after", [np.nan, 3.0])
def test_roles_of_kept_heads_end_at_the_whole_model_and_after_training_where_models_are_kept(after):
    figure = kept_heads.draw_kept_roles(role_counts(after), LABELS, ["b", "a"])
    methods = ["importance, at once", "L0"]
    of_tasks = [f"{method}\n{task}" for task in "ba" for method in methods]
    assert [axes.get_title() for axes in figure.axes] == [*methods, *of_tasks]
    lines = [line for line in figure.axes[1].get_lines() if len(line.get_xdata()) == 3]
    assert all(line.get_xdata().tolist() == [2, 4, 8] for line in lines)
    unmarked = [line for line in lines if line.get_marker() == "None"]
    solid, by_layer = ([line.get_ydata().tolist() for line in unmarked if line.get_linestyle() == style]
                       for style in ("-", "--"))  # fmt: skip
    assert solid == [[1, 2, 4], [2, 3, 5]] and by_layer == [[0.5, 1, 2]] * 2
    full = [line for line in figure.axes[1].get_lines() if line.get_linestyle() == "None"
            and line.get_markerfacecolor() != "white"]  # fmt: skip
    assert [line.get_xdata().tolist() for line in full] == [[4], [4]]
    trained = [[line.get_ydata().tolist() for line in axes.get_lines()
                if line.get_marker() == "+" and len(line.get_xdata())] for axes in figure.axes]  # fmt: skip
    assert trained == [[], [] if np.isnan(after) else [[3, 3, 3]] * 2] * 3
