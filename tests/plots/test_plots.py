"""Figures of runs and mixtures: what they show equals what the tables hold."""

import itertools

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text

from headspec.heads.ranking import importance_map, prune_count, top_heads
from headspec.plots import curves, dissociation, importance, matrix_parts, shared_fragility, similarity
from headspec.plots.drawing import marks, style
from headspec.plots.drawing.style import number
from support.figures import LARGE, LONG, SMALL, assert_readable, frame, labelled, made, outlines, words

FRACTION = 0.3
FRACTIONS = [0.1, 0.2, 0.3, 0.5]
BOTH = ["tuned", "frozen"]
METRICS = dict.fromkeys(SMALL, "accuracy")
PAIR = {"+".join(SMALL): SMALL}


def importances(n: int, layers: int = 6, tasks: list[str] = SMALL) -> dict[int, pd.DataFrame]:
    places = dict(task=tasks, fold=range(2), layer=range(layers), head=range(12), n=10)
    return {seed: made("importance", seed, **places) for seed in range(n)}


def by_mixture(name: str, mixtures: dict[str, list[str]], **columns: object) -> pd.DataFrame:
    """Rows of the table `name` for the tasks of each mixture and their mean."""
    every = dict(model="minilm", method=BOTH, ci_over="examples")
    each = [
        made(name, i, **every | dict(mixture=mixture, task=[*tasks, "mean"]) | columns)
        for i, (mixture, tasks) in enumerate(mixtures.items())
    ]
    return pd.concat(each, ignore_index=True)


@pytest.mark.parametrize(("layers", "pruned"), [(6, 21), (12, 43)])
def test_importance_outlines_the_pruned_heads(layers, pruned):
    seeds = importances(2, layers)
    figure = importance.draw_importance(seeds, SMALL, FRACTION)
    heat_maps = [axes for axes in figure.axes if axes.images]
    for axes, (task, seed) in zip(heat_maps, itertools.product(SMALL, seeds), strict=True):
        heat = importance_map(seeds[seed], task)
        assert (axes.get_title("left"), axes.get_title("right")) == (task, f"seed {seed}")
        np.testing.assert_allclose(axes.images[0].get_array(), heat / heat.max())
        top = {(head, layer) for layer, head in np.argwhere(top_heads(heat, pruned))}
        assert set(outlines(axes)) == top and len(outlines(axes)) == pruned


def test_importance_of_many_seeds_shows_their_mean_and_three():
    seeds = importances(5, tasks=LONG)
    figure = importance.draw_importance(seeds, LONG, FRACTION)
    assert_readable(figure)
    first_row = [axes for axes in figure.axes if axes.images][:4]
    columns = ["mean of 5", "seed 0", "seed 1", "seed 2"]
    assert [axes.get_title("left") for axes in first_row] == [f"{LONG[0]}\n{column}" for column in columns]
    mean = np.mean([importance_map(table, LONG[0]) for table in seeds.values()], axis=0)
    np.testing.assert_allclose(first_row[0].images[0].get_array(), mean / mean.max())


def pruning_table(seed: int) -> pd.DataFrame:
    """Top and bottom heads of each task at every fraction, and random heads at the main one; two metrics."""
    parts = [
        dict(pruned_for="none", order=None, fraction=0.0),
        *(dict(pruned_for=SMALL, order=["top", "bottom"], fraction=f) for f in FRACTIONS),
        dict(pruned_for=["random", "random_by_layer"], order=None, fraction=FRACTION, draw=range(9)),
    ]
    tables = [
        made("pruning", 9 * seed + i, task=SMALL, metric=["accuracy", "f1"], **part)
        .assign(n_pruned=prune_count(part["fraction"], 72), n=40 if "draw" in part else 100)
        for i, part in enumerate(parts)
    ]  # fmt: skip
    return pd.concat(tables, ignore_index=True)


def predictions(unlearnt: int) -> dict[int, pd.DataFrame]:
    """Predictions of two seeds; the second says one class whatever the text in the first `unlearnt` tasks."""
    label = np.arange(100) % 2
    return {
        seed: pd.concat(
            pd.DataFrame(dict(task=task, label=label, prediction=label * (seed == 0 or i >= unlearnt)))
            for i, task in enumerate(SMALL)
        ).assign(pruned_for="none")
        for seed in (0, 1)
    }


def test_matrix_cells_are_means_and_deviations():
    rows = []
    for task in SMALL:
        rows += [(task, "none", None, 0.0, None, 0.8)]
        rows += [(task, "random", None, FRACTION, draw, 0.6 + 0.2 * draw) for draw in (0, 1)]
        for other in SMALL:
            rows += [(task, other, "top", FRACTION, None, 0.4 if other == task else 0.6)]
            rows += [(task, other, "top", 0.5, None, 0.1), (task, other, "bottom", FRACTION, None, 0.9)]
    columns = ["task", "pruned_for", "order", "fraction", "draw", "value"]
    one = frame("pruning", [dict(zip(columns, row, strict=True), metric="accuracy") for row in rows])
    figure = dissociation.draw_matrix(
        {0: one, 1: one.assign(value=one["value"] + 0.1)}, {}, SMALL, FRACTION, METRICS
    )
    shown = {text.get_position(): text.get_text() for text in figure.axes[0].texts}
    over_seeds, over_draws = 10 * 0.5**0.5, 20 * 0.5**0.5  # sample deviations of two values
    assert shown[0, 0] == f"85.0\n±{over_seeds:.1f}"
    assert shown[0, 1] == f"45.0\n±{over_seeds:.1f}"  # own heads
    assert shown[0, 2] == f"65.0\n±{over_seeds:.1f}"
    assert shown[1, 3] == f"75.0\n±{over_draws:.1f}"
    assert shown[1, 4] == "–"  # no draws by layer in this table
    assert sorted(outlines(figure.axes[0])) == [(0, 1), (1, 2)]
    shade = np.ma.filled(figure.axes[0].images[0].get_array(), np.nan)
    np.testing.assert_allclose(1 - shade[:3, 0], [1, 45 / 85, 65 / 85])
    alone = dissociation.draw_matrix({0: one}, {}, SMALL, FRACTION, METRICS)
    assert alone.axes[0].get_xlabel().endswith("± SD over draws in random rows)")
    shown = {text.get_position(): text.get_text() for text in alone.axes[0].texts}
    assert shown[0, 1] == "40.0" and shown[0, 3].startswith("70.0\n±")
    alone.draw_without_rendering()
    ticks = [float(label) for label in words(alone.axes[1].get_yticklabels())]
    assert np.diff(ticks) == pytest.approx(np.diff(ticks)[0]), "no rounded ticks"


@pytest.mark.parametrize("draw", [dissociation.draw_matrix, curves.draw_curves])
def test_tasks_of_which_nothing_is_learnt_are_marked_where_their_metrics_are(draw):
    """In the figures of pruned metrics, after their names; without any, nothing is said."""
    pruning = {seed: pruning_table(seed) for seed in (0, 1)}
    figures = (draw(pruning, predictions(n), SMALL, FRACTION, METRICS) for n in (1, 0))
    texts, without = ("\n".join(words(figure.findobj(Text))) for figure in figures)
    assert f"{SMALL[0]} ×" in texts and f"{SMALL[1]} ×" not in texts
    assert texts.count("unpruned model at chance") == 1 and "×" not in without
    swapped = {s: table.assign(prediction=1 - table["label"]) for s, table in predictions(0).items()}
    below = "\n".join(words(draw(pruning, swapped, SMALL, FRACTION, METRICS).findobj(Text)))
    assert f"{SMALL[0]} ↓" in below and below.count("unpruned model below chance") == 1 and "×" not in below


@pytest.mark.parametrize("counted", [False, True])
def test_curves_run_from_the_base_through_the_fractions(counted):
    pruning = {seed: pruning_table(seed) for seed in (0, 1)}
    figure = curves.draw_curves(pruning, predictions(0), SMALL, FRACTION, METRICS, counted=counted)
    pruned = [prune_count(f, 72) if counted else 100 * f for f in (0, *FRACTIONS)]
    table = pd.concat(pruning.values()).query("metric == 'accuracy'")
    for axes, task in zip(figure.axes, SMALL, strict=True):
        assert axes.get_xlabel() == ("heads pruned" if counted else "heads pruned (%)")
        drawn = [line for line in axes.lines if len(line.get_xdata()) == len(pruned)]
        dashed = [line for line in drawn if line.get_linestyle() == "--"]
        own_heads = max(drawn, key=lambda line: line.get_linewidth())
        assert (len(drawn), len(dashed)) == (3, 1)
        rows = table[table["task"] == task]
        for line, order in ((own_heads, "top"), (dashed[0], "bottom")):
            own = rows[(rows["pruned_for"] == task) & (rows["order"] == order)]
            np.testing.assert_allclose(line.get_xdata(), pruned)
            np.testing.assert_allclose(line.get_ydata()[1:], 100 * own.groupby("fraction")["value"].mean())
        draws = 100 * rows[rows["pruned_for"] == "random"]["value"]
        box = labelled(axes, "random: range of draws on 40 examples")[0][0]
        assert (box.get_y(), box.get_y() + box.get_height()) == pytest.approx((draws.min(), draws.max()))
        by_layer = labelled(axes, "random by layer: range of draws on 40 examples")[0][0]
        assert by_layer.get_x() == pytest.approx(pruned[3])
        assert labelled(axes, "chance")[0].get_ydata()[0] == pytest.approx(50)


def test_the_range_of_draws_on_all_examples_names_no_number():
    one = pruning_table(0).assign(n=100)
    entries = words(
        curves.draw_curves({0: one}, predictions(0), SMALL, FRACTION, METRICS).legends[0].get_texts()
    )
    assert "random: range of draws" in entries


def test_the_legend_has_what_is_drawn_in_grey_if_it_has_several_colours():
    """Marks without a place have no entry, except those that are made for the legend."""
    figure = Figure()
    axes = figure.subplots()
    axes.plot([], label="empty")
    axes.plot([0, 1], [np.nan, np.nan], label="undefined")
    axes.hlines([1.0], [np.nan], [np.nan], label="no interval")
    axes.scatter([], [], label="no dots")
    axes.plot([np.nan, 1], [0, 1], "o", color="red", label="red")
    for colour in ("red", "blue"):
        axes.hlines([1.0], [0.0], [1.0], color=colour, label="intervals")
        axes.plot([0], [0], "D", color=colour, markerfacecolor="white", label="hollow")
    style.key(axes, "crossed", marker="x", color="black")
    style.legend(figure)
    drawn = figure.legends[0]
    assert words(drawn.get_texts()) == ["red", "intervals", "hollow", "crossed"]
    colours = [to_hex(line.get_color()) for line in drawn.get_lines()]
    assert colours == [to_hex(name) for name in ("red", "0.3", "0.3", "black")]
    assert drawn.get_lines()[2].get_markerfacecolor() == "white"


@pytest.mark.parametrize("mixtures", [PAIR, {"a+b": LARGE[:2], "all": LARGE}], ids=["pair", "many"])
def test_dissociation_has_bars_intervals_dots_and_marks_of_chance(mixtures):
    """Daggers of pruned models at chance give way to crosses, where the unpruned model learnt nothing."""
    models = ["minilm", "bert"]
    combined = by_mixture("combined", mixtures, model=models)
    seeds = by_mixture("dissociation", mixtures, model=models, seed=range(2), fraction=[0.1, FRACTION])
    seeds = seeds[seeds["task"] != "mean"]
    order = dict(reversed(mixtures.items()))
    figure = dissociation.draw_dissociation(combined, seeds, order, FRACTION, 0.1)
    assert [axes.get_title() for axes in figure.axes] == models
    rows = words(figure.axes[0].get_yticklabels())
    assert rows == [name for mixture, tasks in order.items() for name in (mixture, *tasks, "mean")]
    for axes in figure.axes:
        part = combined[combined["model"] == axes.get_title()]
        runs = seeds[(seeds["model"] == axes.get_title()) & (seeds["fraction"] == FRACTION)]
        ends = labelled(axes, "interval over examples")
        for bars, intervals, dots, method in zip(
            axes.containers, ends, labelled(axes, "one seed"), BOTH, strict=True
        ):
            here = part[part["method"] == method]
            np.testing.assert_allclose([bar.get_width() for bar in bars], 100 * here["dissociation"])
            middles = [round(bar.get_y() + bar.get_height() / 2) for bar in bars]
            assert [rows[y] for y in middles] == list(here["task"])
            drawn = np.array([segment[:, 0] for segment in intervals.get_segments()])
            np.testing.assert_allclose(drawn, 100 * here[["ci_low", "ci_high"]])
            own = runs[runs["method"] == method]
            means = own.groupby(["mixture", "seed"])["dissociation"].mean()
            expected = 100 * pd.concat([own["dissociation"], means])
            np.testing.assert_allclose(np.sort(dots.get_xdata()), np.sort(expected))
        assert labelled(axes, "distinct: 10 %")[0].get_xdata()[0] == pytest.approx(10)
        nothing = part["unpruned_at_chance"]
        for look, marked in ((marks.MARKED["†"], part["at_chance"] & ~nothing), (marks.MARKED["×"], nothing)):
            drawn = [x for line in labelled(axes, look["label"]) for x in line.get_xdata()]
            assert len(drawn) == marked.sum() and min(drawn, default=2) > 1  # outside


def test_bars_of_a_matrix_end_at_the_whole():
    table = by_mixture("matrix_parts", PAIR, fraction=FRACTIONS, part=list(matrix_parts.LOOKS))
    table = table.drop(columns="task", errors="ignore").drop_duplicates(["method", "fraction", "part"])
    whole = table.groupby(["method", "fraction"])["share"].transform("sum")
    table["share"] /= whole
    (axes,) = matrix_parts.draw_matrix_parts(table, PAIR, "tuned").axes
    drawn = table[table["method"] == "tuned"].pivot(index="part", columns="fraction", values="share")
    heights = np.reshape([bar.get_height() for bar in axes.patches], drawn.shape)
    np.testing.assert_allclose(heights, 100 * drawn.loc[[*matrix_parts.LOOKS]])
    np.testing.assert_allclose([bar.get_y() + bar.get_height() for bar in axes.containers[-1]], 100)


@pytest.mark.parametrize("models", [["a", "b"], ["a", "b", "c"]])
def test_shared_fragility_shows_every_value_of_the_table(models):
    names = [", ".join(pair) for pair in itertools.combinations(models, 2)]
    every = ", ".join(models)
    rows = pd.DataFrame(
        itertools.product(["all", "some"], ["tuned", "frozen"], dict.fromkeys([*names, every]), FRACTIONS),
        columns=["mixture", "method", "models", "fraction"],
    )
    rng = np.random.default_rng(0)
    rows = rows.assign(n_models=rows["models"].str.count(",") + 1, r=rng.uniform(-1, 1, len(rows)))
    rows["p_holm"] = np.where(rng.random(len(rows)) < 0.5, 0.03, 0.06)
    figure = shared_fragility.draw_shared_fragility(rows, {"all": SMALL, "some": SMALL}, "tuned")
    for axes, mixture in zip(figure.axes, ["all", "some"], strict=True):
        part = rows[(rows["mixture"] == mixture) & (rows["method"] == "tuned")]
        for label, which in (
            ("all models", part["models"] == every),
            ("two models", part["models"] != every),
        ):
            drawn = [y for line in labelled(axes, label) for y in line.get_ydata()]
            assert sorted(drawn) == sorted(part.loc[which, "r"])
        dots = [line for line in axes.get_lines() if line.get_marker() == "o" and len(line.get_xdata())]
        for full, p in ((True, 0.03), (False, 0.06)):
            own = [line for line in dots if (line.get_markerfacecolor() != "white") == full]
            drawn = [y for line in own for y in line.get_ydata()]
            assert sorted(drawn) == sorted(part.loc[part["p_holm"] == p, "r"])


def test_fractions_show_every_value_of_the_table():
    mixtures = PAIR | {"all": SMALL}
    table = by_mixture("fractions", mixtures, fraction=FRACTIONS)
    table.loc[table["fraction"] == FRACTIONS[-1], ["at_chance", "unpruned_at_chance"]] = True, False
    table["below_chance"] = table["unpruned_at_chance"] & (table["task"] != SMALL[0])
    areas = by_mixture("areas", mixtures)
    figure = curves.draw_fractions(table, areas, mixtures, FRACTION, "tuned")
    for axes, mixture in zip(figure.axes, mixtures, strict=True):
        at = table[table["mixture"] == mixture].set_index(["method", "task"])
        lines = [("tuned", task, task) for task in SMALL]
        lines += [("tuned", "mean", "mean over tasks"), ("frozen", "mean", "mean, frozen")]
        for method, task, label in lines:
            (line,), rows = labelled(axes, label), at.loc[(method, task)]
            np.testing.assert_allclose(line.get_ydata(), [0, *100 * rows["dissociation"]])
            np.testing.assert_allclose(line.get_xdata(), [0, *100 * rows["fraction"]])
        (area,) = areas.query("mixture == @mixture and method == 'tuned' and task == 'mean'")["area"]
        title, mean = axes.get_title().split("\n")
        assert title == mixture and mean.startswith(f"mean D {number(100 * area, 1)} % [")
        assert labelled(axes, "hollow: at chance")
        shown = at.loc[[(method, task) for method, task, _ in lines]]
        below, nothing = shown["below_chance"], shown["unpruned_at_chance"]
        keys = {"×": "crossed: unpruned model at chance", "↓": "arrow: unpruned model below chance"}
        for mark, own in {"×": nothing & ~below, "↓": below}.items():
            look = marks.MARKED[mark]["marker"]
            assert bool(labelled(axes, keys[mark])) == own.any()
            drawn = [y for line in axes.lines if line.get_marker() == look for y in line.get_ydata()]
            np.testing.assert_allclose(np.sort(drawn), np.sort(100 * shown[own]["dissociation"]))


def test_marks_on_the_border_of_bars_are_whole():
    """Bars would end the axes at their feet, and cut marks there, were they saved so."""
    figure = Figure()
    axes = figure.subplots()
    axes.bar([1], [0.2], 0.1, 0.5)
    axes.plot([0, 1], [0.5, 0.7], "o")
    assert axes.get_ylim()[0] == 0.5
    style.save(figure, [], 60)
    assert axes.get_ylim()[0] < 0.5


def test_nothing_to_colour_has_no_bar():
    figure = Figure()
    first, second = figure.subplots(1, 2)
    nothing, some = (axes.imshow([[np.nan, value]]) for axes, value in ((first, np.nan), (second, 1)))
    assert style.colour_bar(figure, nothing, "points", ax=first) is None and len(figure.axes) == 2
    assert style.colour_bar(figure, some, "points", ax=second).ax.get_ylabel() == "points"


def test_reliability_shows_every_correlation():
    kinds = ["split_half", "seeds", "tasks"]
    table = by_mixture("reliability", PAIR, task=SMALL, seed_a=range(3), kind=[*kinds, "methods"])
    axes = importance.draw_reliability(table, {}).axes[0]
    shown = table[table["kind"] != "methods"]
    points = np.concatenate([line.get_xdata() for line in axes.lines])
    np.testing.assert_allclose(np.sort(points), np.sort(shown["spearman"]))
    for kind, marker in zip(kinds, "oD^", strict=True):
        for method in BOTH:
            rows = shown[(shown["kind"] == kind) & (shown["method"] == method)]["spearman"]
            looks = marker, importance.FILLS[method]
            (line,) = [
                line for line in axes.lines
                if (line.get_marker(), line.get_markerfacecolor()) == looks and len(line.get_xdata())
            ]  # fmt: skip
            np.testing.assert_allclose(line.get_xdata(), rows)
    for part, found in ((table, kinds), (table[table["kind"] == "seeds"], ["seeds"])):
        entries = words(importance.draw_reliability(part, {}).legends[0].get_texts())
        assert entries == [*(importance.KINDS[kind][0] for kind in found), *BOTH]


def test_encoding_boxes_are_quantiles_over_voxels_and_dots_are_means():
    """The first task predicts one subject, and the second two, as the larger p of two seeds says."""
    keys = dict(task=SMALL, subject=[f"s{i}" for i in range(5)])
    seeds = {seed: made("brain_encoding", seed, **keys, voxel=range(20)) for seed in (0, 1)}
    summaries = {seed: made("brain_encoding_summary", **keys) for seed in (0, 1)}
    for seed, summary in summaries.items():
        predicted = summary["subject"].str[1:].astype(int) <= summary["task"].map(SMALL.index)
        summary["p_value"] = np.where(predicted, 0.01 + 0.02 * seed, 0.2 - 0.17 * seed)
    axes = similarity.draw_brain_encoding(seeds, summaries, SMALL[::-1]).axes[0]
    assert [text for text in words(axes.texts) if "/" in text] == ["2/5", "1/5"]
    assert words(axes.get_yticklabels()) == [*SMALL[::-1], "other subjects"]
    r = pd.concat(seeds.values()).query("task == @SMALL[1]").groupby(["subject", "voxel"])["r"].mean()
    box = axes.patches[0].get_path().vertices[:, 0]
    assert (box.min(), box.max()) == pytest.approx(tuple(r.quantile([0.25, 0.75])))
    dots = labelled(axes, "mean of one subject")
    np.testing.assert_allclose(dots[0].get_xdata(), r.groupby("subject").mean())
    best = seeds[0][seeds[0]["task"] == SMALL[0]].groupby("subject")["ceiling"].mean()
    np.testing.assert_allclose(dots[-1].get_xdata(), best)
    alone = seeds[0].query("subject == 's0'").assign(ceiling=np.nan)
    axes = similarity.draw_brain_encoding({0: alone}, {0: summaries[0]}, SMALL).axes[0]
    assert words(axes.get_yticklabels()) == SMALL and len(axes.patches) == 2
