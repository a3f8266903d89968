"""The figure of gains: what is drawn is what the tables have."""

import itertools

import numpy as np
import pandas as pd
import pytest

from headspec.plots import gains
from support.figures import frame, words

TASKS = ["a", "b", "c"]
METRICS = dict.fromkeys(TASKS, "accuracy")
#: of (target, source), as a fraction
GAINS = {("a", "b"): -0.02, ("a", "c"): 0.01, ("b", "a"): 0.04, ("c", "a"): 0.0, ("c", "b"): -0.012}


def measured(p=0.2, **more) -> pd.DataFrame:
    """Gains of pairs, without the one in which `b` learns from `c`; a group of all, and each task alone."""
    rows = [{"mixture": task, "method": "single", "task": task, "value": 0.8} for task in TASKS]
    for (target, source), gain in GAINS.items():
        mixture = "+".join(task for task in TASKS if task in (target, source))
        rows.append({"mixture": mixture, "method": "tuned", "task": target, "value": 0.8 + gain})
        rows[-1] |= {"difference": gain, "p_seeds_holm": p} | more
    others = [*(("all", "tuned", task) for task in (*TASKS, "mean")), ("a+b", "tuned", "mean")]
    for mixture, method, task in (*others, ("a+b", "frozen", "a")):
        rows.append({"mixture": mixture, "method": method, "task": task, "value": 0.7, "difference": -0.1})
    rows = [{"unpruned_at_chance": False, "n_seeds": 3} | row for row in rows]
    return frame("sharing", [row | {"model": "m", "metric": "accuracy"} for row in rows])


def predicted(missing=()) -> pd.DataFrame:
    rows = [
        {"model": "m", "predictor": predictor, "held_out": held_out, "source": source, "target": target,
         "predicted": np.nan if (target, source) in missing else number / 100}
        for number, (predictor, held_out) in enumerate([("baseline", 1), ("baseline+all", 2),
                                                        ("baseline+all", 1)], 1)
        for target, source in itertools.permutations(TASKS, 2)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def drawn(axes) -> dict[tuple[str, str], str]:
    """Texts of cells by target and source."""
    tasks = words(axes.get_xticklabels())
    places = ((text.get_text(), *text.get_position()) for text in axes.texts)
    return {(tasks[y], tasks[x]): text for text, x, y in places}


def test_cells_are_gains_of_pairs_alone():
    figure = gains.draw_gains(measured(), predicted(missing=[("a", "c")]), METRICS)
    left, right = figure.axes[:2]
    minus = "\N{MINUS SIGN}"
    assert drawn(left) == {
        ("a", "b"): f"{minus}2.0", ("a", "c"): "+1.0", ("b", "a"): "+4.0", ("c", "a"): "0.0",
        ("c", "b"): f"{minus}1.2",
    }  # fmt: skip
    assert set(drawn(right).values()) == {"+3.0"} and ("a", "c") not in drawn(right)
    assert len(drawn(right)) == 5
    expected = [[0, -2, 1], [4, 0, np.nan], [0, -1.2, 0]]
    np.testing.assert_allclose(left.images[0].get_array().filled(np.nan), expected, atol=1e-9)
    for axes in (left, right):
        assert axes.images[0].get_clim() == pytest.approx((-4, 4)) and axes.patch.get_hatch()
    assert words(left.get_yticklabels()) == [f"{task}\naccuracy 80.0" for task in TASKS]
    lost, gained = (left.images[0].cmap(value) for value in (0.0, 1.0))
    assert lost[2] > lost[0] and gained[0] > gained[2]  # blue, orange
    for predictions in (None, predicted().iloc[:0], predicted().query("predictor == 'baseline'")):
        assert len(gains.draw_gains(measured(), predictions, METRICS).axes) == 2, "one panel, with the bar"


@pytest.mark.parametrize(
    ("p", "n_seeds", "at_chance", "mark"),
    [(0.049, 3, False, "*"), (0.051, 3, False, ""), (0.01, 3, True, "×"), (0.001, 2, False, "")],
)
def test_clear_differences_have_a_star_and_targets_that_are_not_learnt_a_cross(p, n_seeds, at_chance, mark):
    """Two seeds do not show how others vary."""
    table = measured(p=p, unpruned_at_chance=at_chance, n_seeds=n_seeds)
    axes = gains.draw_gains(table, None, METRICS).axes[0]
    assert drawn(axes)["a", "c"] == "+1.0" + mark
    assert ("×: no better than chance" in axes.get_xlabel()) == at_chance


def test_groups_are_blocks_on_the_diagonal():
    figure = gains.draw_gains(measured(), predicted(), METRICS, [["c", "a"], ["b"], ["unknown"]])
    for axes in figure.axes[:2]:
        assert words(axes.get_xticklabels()) == ["a", "c", "b"]
        places = [(*block.get_xy(), block.get_width(), block.get_height()) for block in axes.patches]
        assert places == [(-0.5, -0.5, 2, 2), (1.5, 1.5, 1, 1)]
    assert drawn(figure.axes[0])["b", "a"] == "+4.0"
