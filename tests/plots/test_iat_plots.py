"""Figures of IAT: what they show equals what the tables hold."""

import itertools

import numpy as np
import pytest

from headspec.config.study import Study, plain
from headspec.plots import dissociation
from headspec.plots.drawing.marks import MARKED
from headspec.plots.drawing.style import interval_label
from headspec.plots.iat import (
    POINT,
    UNLEARNT_CROSS,
    draw_alpha_delta,
    draw_improvement,
    draw_verdict,
    with_panel,
)
from headspec.statistics.improvement import against, by_seed
from support.data import iat
from support.figures import labelled, outlines, words
from support.tiers import cases


@pytest.fixture(scope="module", params=cases(iat.CASES, "small".__eq__))
def case(request) -> tuple[list[str], Study]:
    tasks, seeds, section = iat.CASES[request.param]
    return tasks, iat.study(tasks, seeds, section)


def drawn_improvement(tasks, config, table, scores):
    variants = [plain(variant) for variant in config.variants.values()]
    return draw_improvement(table, scores, "all", tasks, iat.metrics(tasks), variants, iat.labels(config))


def assert_points(config: Study, points, axes, rows) -> None:
    """Differences are filled where they are clear for other seeds, crossed where neither method learnt."""
    np.testing.assert_allclose([point.get_xdata()[0] for point in points], 100 * rows["difference"])
    clear = (rows["p_seeds_holm"] < 0.05) & (len(config.seeds) > 2) & ~rows["unpruned_at_chance"]
    assert [point.get_markerfacecolor() == "black" for point in points] == list(clear)
    crosses = [x for line in labelled(axes, UNLEARNT_CROSS["label"]) for x in line.get_xdata()]
    np.testing.assert_allclose(crosses, 100 * rows.loc[rows["unpruned_at_chance"], "difference"])


def segments(axes, label: str) -> np.ndarray:
    """Ends of the intervals of `axes`, in order."""
    return np.array([segment[:, 0] for segment in labelled(axes, label)[0].get_segments()])


def test_improvement_shows_every_difference_of_every_method(case):
    tasks, config = case
    table, scores = iat.improvement_table(config), iat.iat_table(config)
    seeds = by_seed(scores, {"all": tasks}, [*config.variants.values()])
    figure = drawn_improvement(tasks, config, table, scores)
    titles = [axes.get_title() for axes in figure.axes]
    assert titles[0] == "IAT" and titles[-1] == "single-task"
    methods = list(with_panel(table, iat.labels(config))["method"])
    assert set(methods) == {m for m in against([*config.variants.values()]) if "delta" not in m}
    for axes, method in zip(figure.axes, methods, strict=True):
        rows = table[table["method"] == method].set_index("task").loc[["mean", *tasks]]
        points = labelled(axes, POINT["label"])
        assert [p.get_ydata()[0] for p in points] == list(range(len(rows)))
        assert_points(config, points, axes, rows)
        np.testing.assert_allclose(segments(axes, interval_label(rows)), 100 * rows[["ci_low", "ci_high"]])
        (dots,) = labelled(axes, "one seed")
        own = seeds[seeds["method"] == method]["difference"]
        assert sorted(dots.get_xdata()) == pytest.approx(sorted(100 * own))
        assert sorted(np.round(dots.get_ydata())) == sorted(list(range(len(rows))) * len(config.seeds))
    values = table[table["method"] == "tuned"].set_index("task")["value"]
    names = words(figure.axes[0].get_yticklabels())
    assert names[0] == f"mean {100 * values['mean']:.1f}"
    assert names[1].startswith(f"{tasks[0]}, ") and names[1].endswith(f" {100 * values[tasks[0]]:.1f}")


def test_methods_that_continue_from_mtl_share_a_scale_which_rounding_does_not_fill():
    tasks, seeds, section = iat.CASES["nine"]
    config = iat.study(tasks, seeds, section)
    table, scores = iat.improvement_table(config), iat.iat_table(config)
    figure = drawn_improvement(tasks, config, table, scores)
    limits = {axes.get_title(): axes.get_xlim() for axes in figure.axes}
    assert limits["IAT"] == limits["LoRA"] == limits["IAT, sqrt\nvs MTL, sqrt"]
    assert limits["single-task"] == limits["MTL, sqrt sampling"] != limits["IAT"]
    table[iat.DIFFERENCE] = 1e-17 * np.sign(table[iat.DIFFERENCE])
    for axes in drawn_improvement(tasks, config, table, scores.assign(value=0.5)).axes:
        assert axes.get_xlim() == pytest.approx((-0.1, 0.1))


def test_specialization_bars_and_differences_equal_the_tables(case):
    tasks, config = case
    table, combined, runs = iat.specialization_tables(tasks, len(config.seeds))
    left, right = dissociation.draw_specialization(table, combined, runs, tasks, 0.3).axes
    rows = ["mean", *tasks]
    assert words(left.get_yticklabels()) == rows
    expected = table.set_index("task").loc[rows]
    for bars, method in zip(left.containers, ("tuned", "iat"), strict=True):
        d = combined[combined["method"] == method].set_index("task").loc[rows, "dissociation"]
        np.testing.assert_allclose([bar.get_width() for bar in bars], 100 * d)
    (means,) = labelled(right, "mean over seeds")
    np.testing.assert_allclose(means.get_xdata(), 100 * expected["difference"])
    ends = segments(right, "interval over examples")
    np.testing.assert_allclose(ends, 100 * expected[["ci_low", "ci_high"]])
    by_run = runs.pivot(index=["method", "seed"], columns="task", values="dissociation")[tasks]
    by_run.insert(0, "mean", by_run.mean(axis=1))
    dots = np.array([line.get_xdata() for line in labelled(right, "one seed")])
    np.testing.assert_allclose(dots, 100 * (by_run.loc["iat"] - by_run.loc["tuned"]))
    nothing = expected["unpruned_at_chance"]
    for look, column in ((MARKED["†"], expected["at_chance"] & ~nothing), (MARKED["×"], nothing)):
        drawn = [rows[int(y)] for line in labelled(right, look["label"]) for y in line.get_ydata()]
        assert drawn == [task for task in rows if column[task]]


def test_alpha_delta_cells_are_the_means_of_the_sweep():
    tasks, seeds, section = iat.CASES["nine"]
    table = iat.improvement_table(iat.study(tasks, seeds, section))
    axes = draw_alpha_delta(table).axes[0]
    alphas, deltas = [0.1, 0.3, 0.5, 0.7, 1], [0.05, 0.1, 0.2, 0.3]
    assert words(axes.get_xticklabels()) == [f"{100 * a:g}" for a in alphas]
    assert words(axes.get_yticklabels()) == [f"{100 * d:g}" for d in deltas]
    shades = np.asarray(axes.images[0].get_array())
    places = {text.get_position(): text.get_text() for text in axes.texts}
    means = table[table["task"] == "mean"].set_index("method")
    for (y, delta), (x, alpha) in itertools.product(enumerate(deltas), enumerate(alphas)):
        main = (alpha, delta) == (0.3, 0.1)
        row = means.loc["iat" if main else f"iat-alpha{alpha:g}-delta{delta:g}"]
        assert shades[y, x] == pytest.approx(100 * row["difference"])
        written = [places[x, y + 0.14], places[x, y - 0.22]]
        numbers = [100 * row[name] for name in iat.DIFFERENCE]
        expected = [f"{numbers[0]:+.2f}", f"[{numbers[1]:.2f}, {numbers[2]:.2f}]".replace("-0.00", "0.00")]
        assert [word.replace("\N{MINUS SIGN}", "-") for word in written] == expected
    assert outlines(axes) == [(1, 1)]
    low, high = axes.images[0].get_clim()
    assert low <= 0 <= high


def test_the_verdict_has_every_variant_in_the_panels_of_its_alpha_and_delta(case):
    _, config = case
    table, names = iat.improvement_table(config), iat.labels(config)
    figure = draw_verdict(table, names)
    means, drawn = table[table["task"] == "mean"].set_index("method"), []
    for axes in figure.axes:
        delta, alpha = (float(part.split()[1]) / 100 for part in axes.get_title().split(","))
        at = (None, pytest.approx(alpha)), pytest.approx(delta)
        here = [
            v for v in config.variants.values() if v.base == "tuned" and v.alpha in at[0] and v.delta == at[1]
        ]
        row = axes.get_subplotspec().rowspan.start
        first = next(each for each in figure.axes if each.get_subplotspec().rowspan.start == row)
        ticks = words(first.get_yticklabels())
        points = {ticks[int(p.get_ydata()[0])]: p for p in labelled(axes, POINT["label"])}
        rows = means.loc[[v.method for v in here]]
        assert set(points) == {names[v.retraining] for v in here} and len(here) == len(points)
        assert_points(config, [points[names[v.retraining]] for v in here], axes, rows)
        ends = np.sort(segments(axes, interval_label(means)), axis=0)
        np.testing.assert_allclose(ends, np.sort(100 * rows[["ci_low", "ci_high"]], axis=0))
        drawn += [v.method for v in here]
    assert set(drawn) == {v.method for v in config.variants.values() if v.retraining and v.base == "tuned"}
