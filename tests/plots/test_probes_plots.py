"""Figures of probes: what is drawn is what the tables have."""

import itertools

import numpy as np
import pandas as pd
import pytest

from headspec.plots.probes import changes, heads, known, sharing
from support.figures import labelled

LABELS = {"NOUN": 300, "VERB": 200, "X": 4}
RUNS = [("none", "random"), ("none", "pretrained"), ("pos", "single"), ("all", "tuned"), ("all", "iat"),
        ("pos+dep", "tuned")]  # fmt: skip


def probes_table() -> pd.DataFrame:
    rows = [
        {"model": "m", "mixture": mixture, "method": method, "task": "pos", "label": label, "heads": of,
         "accuracy": (i + 1) / 10 + (of == "best") / 10, "control": 0.05, "n": n}
        for (i, (mixture, method)), (label, n), of in itertools.product(
            enumerate(RUNS), [(None, 504), *LABELS.items()], ("best", "mean")
        )
    ]  # fmt: skip
    frame = pd.DataFrame(rows)
    frame["selectivity"] = frame["accuracy"] - frame["control"]
    for name in ("accuracy", "selectivity"):
        frame[f"{name}_low"], frame[f"{name}_high"] = frame[name] - 0.02, frame[name] + 0.02
    return frame


def changes_table() -> pd.DataFrame:
    rows = [
        {"task": "pos", "label": label, "heads": "best", "before": before, "mixture": mixture,
         "method": method, "change": change, "n": n}
        for before, mixture, method, change in [
            ("pretrained", "pos", "single", 0.2), ("pretrained", "all", "tuned", 0.1),
            ("single", "all", "tuned", -0.1), ("single", "pos+dep", "tuned", 0.01),
            ("tuned", "all", "iat", 0.0),
        ]
        for label, n in [(None, 504), *LABELS.items()]
    ]  # fmt: skip
    frame = pd.DataFrame(rows)
    return frame.assign(ci_low=frame["change"] - 0.05, ci_high=frame["change"] + 0.05)


def probed(head: int) -> pd.DataFrame:
    """Two folds; one head of 2 x 3 is right for all units, the others for none; labels in two directions."""
    index = [(f, d, i, label) for f in (0, 1) for d in ("to", "from") for i in range(6) for label in LABELS]
    frame = pd.DataFrame(index, columns=["fold", "direction", "head", "label"])
    frame["n"] = frame["label"].map(LABELS) // 2
    frame["right"] = frame["n"] * ((frame["head"] == head) & (frame["direction"] == "from"))
    return frame.assign(layer=frame["head"] // 3, head=frame["head"] % 3)


def sharing_table() -> pd.DataFrame:
    rows = [("pos", "single", "pos", 0.9, np.nan, np.nan), ("dep", "single", "dep", 0.8, np.nan, np.nan)]
    for mixture, method in (("all", "even"), ("all", "tuned"), ("pos+dep", "tuned")):
        rows += [(mixture, method, "pos", 0.88, -0.02, 0.01), (mixture, method, "dep", 0.81, 0.01, 0.3)]
    frame = pd.DataFrame(rows, columns=["mixture", "method", "task", "value", "difference", "p_holm"])
    more = frame.query("mixture == 'all' and task == 'pos'").assign(task="ner", value=0.5, difference=np.nan)
    return pd.concat([frame, more]).assign(metric="las", unpruned_at_chance=False)


def test_points_are_those_of_untrained_single_and_joint_models():
    figure = known.draw(probes_table(), "all")
    best, mean, beyond = figure.axes
    assert [text.get_text() for text in best.get_yticklabels()] == ["all", "NOUN", "VERB", "X"]
    assert best.get_legend_handles_labels()[1] == [
        "random", "pretrained", "single", "all", "all, iat", "control",
    ]  # fmt: skip
    for axes, value in ((best, 40), (mean, 30), (beyond, 35)):
        (line,) = labelled(axes, "single")
        assert line.get_xdata() == pytest.approx([value] * 4)


def test_changes_are_those_of_the_joint_mixture():
    figure = changes.draw(changes_table(), "all")
    titles = [axes.get_title().split(",")[0] for axes in figure.axes]
    assert titles == ["single-task", "all", "all by IAT"]
    for axes, change in zip(figure.axes, (20, -10, 0), strict=True):
        clear, unclear = (labelled(axes, label)[0].get_xdata() for label in ("interval without 0", "with 0"))
        assert (len(clear), len(unclear)) == ((4, 0) if change else (0, 4))
        assert [*clear, *unclear] == pytest.approx([change] * 4)
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert labels == ["all (504)", "NOUN (300)", "VERB (200)", "X (4)"]


def test_without_runs_alone_changes_are_those_from_before_training():
    table = changes_table().query("before != 'single' and method == 'tuned'")
    (axes,) = changes.draw(table, "all").axes
    assert axes.get_title() == "all,\nagainst before training"
    assert labelled(axes, "interval without 0")[0].get_xdata() == pytest.approx([10] * 4)


def test_heads_are_drawn_in_their_better_direction_and_the_best_is_marked():
    figure = heads.draw([probed(4), probed(4), probed(5)], [("pretrained", 1), ("alone", 2)])
    before, after = (axes.get_images()[0].get_array() for axes in figure.axes[:2])
    assert before.tolist() == [[0, 0, 0, 0, 100, 0]] * 3 and after.tolist() == [[0, 0, 0, 0, 50, 50]] * 3
    assert figure.axes[0].get_lines()[0].get_xdata().tolist() == [4] * 3


def test_cells_are_scores_and_differences_by_partner():
    figure = sharing.draw(sharing_table(), dict.fromkeys(["pos", "dep", "ner"], "las"))
    axes = figure.axes[0]
    columns = [text.get_text() for text in axes.get_xticklabels()]
    assert columns == ["single-task", "+ pos", "+ dep", "all", "all\neven"]
    cells = {(columns[int(t.get_position()[0])], int(t.get_position()[1])): t.get_text() for t in axes.texts}
    assert cells["single-task", 0] == "90.0" and cells["+ dep", 0] == "88.0\n\N{MINUS SIGN}2.0*"
    assert cells["+ pos", 1] == "81.0\n+1.0" and cells["all", 2] == "50.0"
    assert ("+ pos", 0) not in cells
    shade = axes.images[0].get_array()
    assert shade[0, 2] == pytest.approx(2) and shade[1, 1] == pytest.approx(-1)  # lost, gained
    assert axes.images[0].get_clim() == pytest.approx((-2, 2))


def test_cells_of_models_that_learnt_nothing_are_marked_and_have_no_star():
    table = sharing_table()
    table["unpruned_at_chance"] = table["task"].eq("pos") & table["mixture"].eq("pos+dep")
    axes = sharing.draw(table, dict.fromkeys(["pos", "dep", "ner"], "las")).axes[0]
    assert [text.get_text() for text in axes.texts if "×" in text.get_text()] == ["88.0 ×\n\N{MINUS SIGN}2.0"]
    assert "×: no better than chance" in axes.get_xlabel()
