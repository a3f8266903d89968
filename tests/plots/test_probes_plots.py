"""Figures of probes: what is drawn is what the tables have."""

import itertools

import numpy as np
import pandas as pd
import pytest

from headspec.plots import gains, probes
from support.figures import frame, labelled, made, words

LABELS = {"NOUN": 300, "VERB": 200, "X": 4}
UNITS = {None: 504} | LABELS


def test_points_are_those_of_untrained_single_and_joint_models():
    runs = [("none", "random"), ("none", "pretrained"), ("pos", "single"), ("all", "tuned"), ("all", "iat"),
            ("pos+dep", "tuned")]  # fmt: skip
    keys = dict(model="m", task="pos", label=[*UNITS], heads=["best", "mean"])
    each = [made("probes", i, **keys, mixture=run[0], method=run[1]) for i, run in enumerate(runs)]
    table = pd.concat(each, ignore_index=True)
    table["n"] = table["label"].map(LABELS).fillna(UNITS[None])
    figure = probes.draw_known(table, "all")
    assert words(figure.axes[0].get_yticklabels()) == ["all", "NOUN", "VERB", "X"]
    names = ["random", "pretrained", "single", "all", "all, iat", "control"]
    assert figure.axes[0].get_legend_handles_labels()[1] == names
    panels = [("best", "accuracy"), ("mean", "accuracy"), ("best", "selectivity")]
    for axes, (which, column) in zip(figure.axes, panels, strict=True):
        for (mixture, method), name in zip(runs, names[:-1], strict=False):
            (line,) = labelled(axes, name)
            rows = table[table["mixture"].eq(mixture) & table["method"].eq(method) & table["heads"].eq(which)]
            assert line.get_xdata() == pytest.approx(100 * rows[column])


def changes_table() -> pd.DataFrame:
    rows = [
        {"task": "pos", "label": label, "heads": "best", "before": before, "mixture": mixture,
         "method": method, "change": change, "ci_low": change - 0.05, "ci_high": change + 0.05, "n": n}
        for before, mixture, method, change in [
            ("pretrained", "pos", "single", 0.2), ("pretrained", "all", "tuned", 0.1),
            ("single", "all", "tuned", -0.1), ("single", "pos+dep", "tuned", 0.01),
            ("tuned", "all", "iat", 0.0),
        ]
        for label, n in UNITS.items()
    ]  # fmt: skip
    return frame("probe_changes", rows)


def known_before() -> pd.DataFrame:
    """Heads know half of the units of most labels, and nearly all of NOUN before training and alone."""
    runs = [("none", "pretrained"), ("pos", "single"), ("all", "tuned")]
    rows = [
        {"task": "pos", "label": label, "heads": "best", "mixture": mixture, "method": method,
         "accuracy": 0.97 if label == "NOUN" and method != "tuned" else 0.5}
        for mixture, method in runs for label in UNITS
    ]  # fmt: skip
    return frame("probes", rows)


def test_a_ceiling_is_drawn_where_no_rise_could_be_clear():
    figure = probes.draw_probe_changes(changes_table(), known_before(), "all")
    for axes, names in zip(figure.axes, (["NOUN"], ["NOUN"], []), strict=True):
        (strokes,) = labelled(axes, probes.CEILING)
        assert [[*UNITS][int(y)] for y in strokes.get_ydata()] == names
        assert [*strokes.get_xdata()] == pytest.approx([3.0] * len(names))


def test_changes_are_those_of_the_joint_mixture():
    figure = probes.draw_probe_changes(changes_table(), known_before(), "all")
    titles = [axes.get_title().split(",")[0] for axes in figure.axes]
    assert titles == ["single-task", "all", "all by IAT"]
    for axes, change in zip(figure.axes, (20, -10, 0), strict=True):
        clear, unclear = (labelled(axes, label)[0].get_xdata() for label in ("interval without 0", "with 0"))
        assert (len(clear), len(unclear)) == ((4, 0) if change else (0, 4))
        assert [*clear, *unclear] == pytest.approx([change] * 4)
    assert words(figure.axes[0].get_yticklabels()) == ["all (504)", "NOUN (300)", "VERB (200)", "X (4)"]
    trained = changes_table().query("before != 'single' and method == 'tuned'")
    (axes,) = probes.draw_probe_changes(trained, known_before(), "all").axes
    assert axes.get_title() == "all,\nagainst before training", "there are no runs alone"
    assert labelled(axes, "interval without 0")[0].get_xdata() == pytest.approx([10] * 4)


def probed(head: int) -> pd.DataFrame:
    """Two folds; one head of 2 x 3 is right for all units, the others for none; labels in two directions."""
    index = itertools.product((0, 1), ("to", "from"), range(6), LABELS)
    table = pd.DataFrame(index, columns=["fold", "direction", "head", "label"])
    table["n"] = table["label"].map(LABELS) // 2
    table["right"] = table["n"] * ((table["head"] == head) & (table["direction"] == "from"))
    return table.assign(layer=table["head"] // 3, head=table["head"] % 3)


def test_heads_are_drawn_in_their_better_direction_and_the_best_is_marked():
    figure = probes.draw_probed_heads([probed(4), probed(4), probed(5)], [("pretrained", 1), ("alone", 2)])
    before, after = (axes.get_images()[0].get_array() for axes in figure.axes[:2])
    assert before.tolist() == [[0, 0, 0, 0, 100, 0]] * 3 and after.tolist() == [[0, 0, 0, 0, 50, 50]] * 3
    assert figure.axes[0].get_lines()[0].get_xdata().tolist() == [4] * 3


def test_cells_are_scores_and_differences_by_partner():
    """Models that learnt nothing, of `pos` with `dep`, are marked and have no star."""
    rows = [("pos", "single", "pos", 0.9, None, None), ("dep", "single", "dep", 0.8, None, None)]
    for mixture, method in (("all", "even"), ("all", "tuned"), ("pos+dep", "tuned")):
        rows += [(mixture, method, "pos", 0.88, -0.02, 0.01), (mixture, method, "dep", 0.81, 0.01, 0.3)]
        rows += [(mixture, method, "ner", 0.5, None, None)] * (mixture == "all")
    columns = ["mixture", "method", "task", "value", "difference", "p_seeds_holm"]
    table = pd.DataFrame(rows, columns=columns).astype({"difference": float, "p_seeds_holm": float})
    table = table.assign(
        metric="las", n_seeds=3, unpruned_at_chance=table["mixture"].eq("pos+dep") & table["task"].eq("pos")
    )
    metrics = dict.fromkeys(["pos", "dep", "ner"], "las")
    assert not any(
        "*" in text for text in words(gains.draw_sharing(table.assign(n_seeds=2), metrics).axes[0].texts)
    )
    axes = gains.draw_sharing(table, metrics).axes[0]
    columns = words(axes.get_xticklabels())
    assert columns == ["single-task", "+ pos", "+ dep", "all", "all\neven"]
    cells = {(columns[int(t.get_position()[0])], int(t.get_position()[1])): t.get_text() for t in axes.texts}
    assert cells["single-task", 0] == "90.0" and cells["all", 0] == "88.0\n\N{MINUS SIGN}2.0*"
    assert cells["+ pos", 1] == "81.0\n+1.0" and cells["all", 2] == "50.0"
    assert [text for text in cells.values() if "×" in text] == ["88.0 ×\n\N{MINUS SIGN}2.0"]
    assert cells["+ dep", 0] == "88.0 ×\n\N{MINUS SIGN}2.0" and ("+ pos", 0) not in cells
    assert "×: no better than chance" in axes.get_xlabel()
    shade = axes.images[0].get_array()
    assert shade[0, 2] == pytest.approx(2) and shade[1, 1] == pytest.approx(-1)  # lost, gained
    assert axes.images[0].get_clim() == pytest.approx((-2, 2))
    (axes,) = gains.draw_sharing(table[table["method"] != "single"].assign(difference=np.nan), metrics).axes
    assert "difference" not in axes.get_xlabel(), "nothing to compare with, and no bar of colours"
