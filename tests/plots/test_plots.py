"""Figures and the summary: what they show equals what the tables hold."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import docutils.core
import jinja2
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from headspec import tables
from headspec.errors import HeadspecError
from headspec.heads.ranking import importance_map, prune_count, top_heads
from headspec.pipeline.commands import summary
from headspec.plots import brain_encoding, curves, dissociation, fractions, importance, matrix, reliability
from headspec.plots.drawing import marks
from headspec.plots.drawing.style import number
from support.figures import LARGE, LONG, NINE, SMALL, assert_readable, assert_same_bytes, frame, labelled
from support.paths import ROOT
from support.schemas import SCHEMAS

FRACTION = 0.3
BOTH = ["tuned", "frozen"]


# --- synthetic tables ---------------------------------------------------------------------------


def importance_table(tasks: list[str], layers: int, heads: int, seed: int) -> pd.DataFrame:
    """Lognormal importances: a pattern per task, with noise per seed and fold."""
    rows = []
    for index, task in enumerate(tasks):
        pattern = np.random.default_rng(index).normal(size=(layers, heads))
        noise = np.random.default_rng([index, seed]).normal(size=(10, layers, heads))
        for (fold, layer, head), value in np.ndenumerate(np.exp(pattern + 0.3 * noise)):
            rows.append(dict(task=task, fold=fold, layer=layer, head=head, importance=value, n=100))
    return frame("importance", rows)


def pruning_table(tasks: list[str], seed: int, draws: int = 20, total: int = 72) -> pd.DataFrame:
    """Own heads hurt most, others' less, random heads little, bottom heads hardly."""
    rng = np.random.default_rng(seed)
    rows = []
    for index, task in enumerate(tasks):
        base = 0.92 - 0.03 * index

        def add(pruned_for, order, fraction, draw, loss, task=task, base=base):
            value = max(0.5, base - loss + rng.normal(0, 0.006))
            common = dict(pruned_for=pruned_for, order=order, fraction=fraction, draw=draw, task=task, n=500)
            common["n_pruned"] = prune_count(fraction, total)
            rows.append(common | {"metric": "accuracy", "value": value})
            rows.append(common | {"metric": "f1", "value": value / 2})

        add("none", None, 0.0, None, 0)
        for fraction in (0.1, 0.2, 0.3, 0.4, 0.5):
            for other in tasks:
                add(other, "top", fraction, None, fraction**1.5 * (1.7 if other == task else 0.7))
                add(other, "bottom", fraction, None, 0.1 * fraction**2)
        for draw in range(draws):
            add("random", None, FRACTION, draw, rng.gamma(2, 0.02))
            add("random_by_layer", None, FRACTION, draw, rng.gamma(2, 0.015))
    return frame("pruning", rows)


def dissociation_tables(
    mixtures: dict[str, list[str]],
    seeds: int = 2,
    models: tuple[str, ...] = ("minilm",),
    methods: list[str] = BOTH,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Tables 'combined' and 'dissociation'; the first task of every frozen mixture is at chance."""
    rng = np.random.default_rng(0)
    rows, runs = [], []
    for model, (mixture, tasks), method in itertools.product(models, mixtures.items(), methods):
        scale = 0.12 if method == "tuned" else 0.04
        d = rng.normal(scale, 0.05, size=(seeds, len(tasks)))
        common = dict(model=model, mixture=mixture, method=method)
        values = dict(zip(tasks, d.mean(axis=0), strict=True)) | {"mean": d.mean()}
        for task, value in values.items():
            at_chance = method == "frozen" and task in (tasks[0], "mean")
            width = 0.01 + 0.03 * rng.random()
            row = dict(
                n_seeds=seeds,
                task=task,
                dissociation=value,
                at_chance=at_chance,
                p_value=0.0005,
                p_holm=0.012,
            )
            row |= dict(ci_low=value - width, ci_high=value + width, ci_over="examples")
            if task == "mean":
                case = "double" if (d.mean(axis=0) > 0).all() else "none"
                row |= dict(case=case, distinct=case == "double" and value >= 0.1)
            rows.append(common | row)
        for seed, index in itertools.product(range(seeds), range(len(tasks))):
            runs.append(
                common | dict(seed=seed, fraction=FRACTION, task=tasks[index], dissociation=d[seed, index])
            )
    return frame("combined", rows), frame("dissociation", runs)


def fractions_tables(mixtures: dict[str, list[str]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Tables 'fractions' and 'areas': D rises and falls again; the last task ends at chance."""
    rng, rows, areas = np.random.default_rng(0), [], []
    for (mixture, tasks), method in itertools.product(mixtures.items(), BOTH):
        common = dict(model="minilm", mixture=mixture, method=method, n_seeds=2, ci_over="examples")
        for i, task in enumerate([*tasks, "mean"]):
            height = rng.normal(0.12 if method == "tuned" else 0.03, 0.05)
            for fraction in (0.1, 0.2, FRACTION, 0.5):
                d = height * (fraction * (1 - fraction)) ** 0.5
                row = dict(fraction=fraction, dissociation=d, ci_low=d - 0.03, ci_high=d + 0.02)
                at_chance = fraction == 0.5 and i >= len(tasks) - 1
                rows.append(common | row | dict(task=task, p_value=0.01, at_chance=at_chance))
            ends = dict(area=height / 3, ci_low=height / 3 - 0.02, ci_high=height / 3 + 0.02)
            areas.append(common | ends | dict(task=task, p_value=0.01, p_holm=0.02))
    return frame("fractions", rows), frame("areas", areas)


def reliability_table(
    mixtures: dict[str, list[str]],
    seeds: int = 2,
    models: tuple[str, ...] = ("minilm",),
    methods: list[str] = BOTH,
) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = []
    for model, (mixture, tasks), method in itertools.product(models, mixtures.items(), methods):
        for task in tasks:
            common = dict(model=model, mixture=mixture, method=method, task=task)
            for seed in range(seeds):
                rows.append(common | dict(kind="split_half", seed_a=seed, spearman=rng.uniform(0.85, 0.99)))
            for a, b in itertools.combinations(range(seeds), 2):
                rows.append(common | dict(kind="seeds", seed_a=a, seed_b=b, spearman=rng.uniform(0.3, 0.8)))
            for other, seed in itertools.product([t for t in tasks if t != task], range(seeds)):
                between_tasks = dict(kind="tasks", against=other, seed_a=seed)
                rows.append(common | between_tasks | dict(spearman=rng.uniform(0.1, 0.6)))
            between_methods = dict(kind="methods", against="lora", seed_a=0, seed_b=0, spearman=0.123)
            rows.append(common | between_methods)
    return frame("reliability", rows)


def summary_table(tasks: list[str], seed: int, subjects: int = 5) -> pd.DataFrame:
    """The first task predicts one subject, and each further task one more, whatever the seed."""
    rows = [
        {"task": task, "subject": f"s{i}", "p_value": 0.01 + 0.02 * seed if i <= t else 0.2 - 0.17 * seed}
        for t, task in enumerate(tasks)
        for i in range(subjects)
    ]
    return frame("brain_encoding_summary", rows)


def encoding_table(tasks: list[str], seed: int, subjects: int = 5, ceiling: bool = True) -> pd.DataFrame:
    """Scores of 200 voxels per subject, rising slightly from subject to subject."""
    rng = np.random.default_rng(0)
    rows = []
    for subject, voxel in itertools.product(range(subjects), range(200)):
        best = rng.beta(2, 5) + 0.02 * subject
        common = dict(subject=f"s{subject}", voxel=voxel, ceiling=best if ceiling else None, n_folds=5)
        for index, task in enumerate(tasks):
            r = best * (0.7 - 0.05 * index) + rng.normal(0, 0.05) + 0.01 * seed
            rows.append(common | dict(task=task, r=r))
    return frame("brain_encoding", rows)


def pairs(tasks: list[str]) -> dict[str, list[str]]:
    return {"+".join(pair): list(pair) for pair in itertools.combinations(tasks, 2)}


def nothing_of(tasks: list[str], unlearnt: int = 1) -> dict[int, pd.DataFrame]:
    """Predictions of two seeds; the second says one class whatever the text in the first `unlearnt` tasks."""
    label = np.arange(100) % 2

    def table(seed: int) -> pd.DataFrame:
        given = [label * (seed == 0 or i >= unlearnt) for i in range(len(tasks))]
        rows = (dict(task=task, label=label, prediction=p) for task, p in zip(tasks, given, strict=True))
        return pd.concat(map(pd.DataFrame, rows)).assign(pruned_for="none")

    return {seed: table(seed) for seed in (0, 1)}


def every_figure(tasks: list[str] = SMALL) -> dict[str, tuple]:
    """Name: module and arguments, for two seeds."""
    pruning = {seed: pruning_table(tasks, seed) for seed in (0, 1)}
    metrics = dict.fromkeys(tasks, "accuracy")
    importances = {seed: importance_table(tasks, 6, 12, seed) for seed in (0, 1)}
    return {
        "importance": (importance, (importances, tasks, FRACTION)),
        "matrix": (matrix, (pruning, nothing_of(tasks), tasks, FRACTION, metrics)),
        "dissociation": (dissociation, (*dissociation_tables(pairs(tasks)), pairs(tasks), FRACTION, 0.1)),
        "fractions": (
            fractions,
            (*fractions_tables(every := pairs(tasks) | {"all": tasks}), every, FRACTION, "tuned"),
        ),
        "curves": (curves, (pruning, nothing_of(tasks), tasks, FRACTION, metrics)),
        "reliability": (reliability, (reliability_table(pairs(tasks)), pairs(tasks))),
        "brain_encoding": (
            brain_encoding,
            (
                {seed: encoding_table(tasks, seed) for seed in (0, 1)},
                {seed: summary_table(tasks, seed) for seed in (0, 1)},
                tasks,
            ),
        ),
    }


# --- what the figures show ----------------------------------------------------------------------


def outlines(axes) -> list[tuple[float, float]]:
    """(column, row) of every outlined cell."""
    patches = [patch for patch in axes.patches if isinstance(patch, Rectangle) and not patch.get_fill()]
    return [(patch.get_x() + 0.5, patch.get_y() + 0.5) for patch in patches]


@pytest.mark.parametrize(("layers", "heads", "pruned"), [(6, 12, 21), (12, 12, 43)])
def test_importance_outlines_the_pruned_heads(layers, heads, pruned):
    seeds = {seed: importance_table(SMALL, layers, heads, seed) for seed in (0, 1)}
    figure = importance.draw(seeds, SMALL, FRACTION)
    heat_maps = [axes for axes in figure.axes if axes.images]
    for axes, (task, seed) in zip(heat_maps, itertools.product(SMALL, seeds), strict=True):
        heat = importance_map(seeds[seed], task)
        assert (axes.get_title("left"), axes.get_title("right")) == (task, f"seed {seed}")
        np.testing.assert_allclose(axes.images[0].get_array(), heat / heat.max())
        assert len(outlines(axes)) == pruned
        top = {(head, layer) for layer, head in np.argwhere(top_heads(heat, pruned))}
        assert set(outlines(axes)) == top


def test_importance_of_many_seeds_shows_their_mean_and_three():
    seeds = {seed: importance_table(SMALL, 6, 12, seed) for seed in range(5)}
    figure = importance.draw(seeds, SMALL, FRACTION)
    first_row = [axes for axes in figure.axes if axes.images][:4]
    assert [axes.get_title("right") for axes in first_row] == ["mean of 5", "seed 0", "seed 1", "seed 2"]
    mean = np.mean([importance_map(seeds[seed], SMALL[0]) for seed in seeds], axis=0)
    np.testing.assert_allclose(first_row[0].images[0].get_array(), mean / mean.max())


def cells(figure) -> dict[tuple[float, float], str]:
    return {text.get_position(): text.get_text() for text in figure.axes[0].texts}


def small_matrix(draws: list[float]) -> pd.DataFrame:
    """The table of one seed for two tasks, in round numbers, with a base of 0.8."""
    rows = []

    def add(pruned_for, order, fraction, draw, task, value):
        rows.append(
            dict(pruned_for=pruned_for, order=order, fraction=fraction, draw=draw, n_pruned=0)
            | dict(task=task, metric="accuracy", value=value, n=10)
        )

    for task in SMALL:
        add("none", None, 0.0, None, task, 0.8)
        for other in SMALL:
            add(other, "top", FRACTION, None, task, 0.4 if other == task else 0.6)
            add(other, "top", 0.5, None, task, 0.1)
            add(other, "bottom", FRACTION, None, task, 0.9)
        for draw, value in enumerate(draws):
            add("random", None, FRACTION, draw, task, value)
    return frame("pruning", rows)


def test_matrix_cells_are_means_and_deviations():
    one, other = small_matrix([0.6, 0.8]), small_matrix([0.6, 0.8])
    other["value"] += 0.1
    metrics = dict.fromkeys(SMALL, "accuracy")
    figure = matrix.draw({0: one, 1: other}, {}, SMALL, FRACTION, metrics)
    shown = cells(figure)
    over_seeds, over_draws = 10 * 0.5**0.5, 20 * 0.5**0.5  # sample deviations of two values
    assert shown[0, 0] == f"85.0\n±{over_seeds:.1f}"
    assert shown[0, 1] == f"45.0\n±{over_seeds:.1f}"  # own heads
    assert shown[0, 2] == f"65.0\n±{over_seeds:.1f}"
    assert shown[1, 3] == f"75.0\n±{over_draws:.1f}"
    assert shown[1, 4] == "–"  # no draws by layer in this table
    assert sorted(outlines(figure.axes[0])) == [(0, 1), (1, 2)]
    shade = np.ma.filled(figure.axes[0].images[0].get_array(), np.nan)
    np.testing.assert_allclose(1 - shade[:3, 0], [1, 45 / 85, 65 / 85])


def test_matrix_of_one_seed_has_no_deviation_over_seeds():
    metrics = dict.fromkeys(SMALL, "accuracy")
    figure = matrix.draw({0: small_matrix([0.6, 0.8])}, {}, SMALL, FRACTION, metrics)
    assert figure.axes[0].get_xlabel().endswith("± SD over draws in random rows)")
    figure.draw_without_rendering()
    ticks = [float(label.get_text()) for label in figure.axes[1].get_yticklabels()]
    assert np.diff(ticks) == pytest.approx(np.diff(ticks)[0]), "no rounded ticks"
    assert cells(figure)[0, 1] == "40.0"
    assert cells(figure)[0, 3].startswith("70.0\n±")


@pytest.mark.parametrize("mixtures", [pairs(SMALL), pairs(LARGE) | {"all": LARGE}], ids=["pair", "many"])
def test_dissociation_bars_equal_the_table(mixtures):
    combined, seeds = dissociation_tables(mixtures, models=("minilm", "bert"))
    order = dict(reversed(mixtures.items()))
    figure = dissociation.draw(combined, seeds, order, FRACTION, 0.1)
    assert {axes.get_title() for axes in figure.axes} == {"bert", "minilm"}
    for axes in figure.axes:
        part = combined[combined["model"] == axes.get_title()]
        rows = [label.get_text() for label in figure.axes[0].get_yticklabels()]
        assert rows == [name for mixture, tasks in order.items() for name in (mixture, *tasks, "mean")]
        assert all(line.get_xdata()[0] > 1 for line in labelled(axes, "at chance: D means little"))  # outside
        for bars, method in zip(axes.containers, BOTH, strict=True):
            method_rows = part[part["method"] == method]
            widths = [bar.get_width() for bar in bars]
            np.testing.assert_allclose(widths, 100 * method_rows["dissociation"])
            middles = [round(bar.get_y() + bar.get_height() / 2) for bar in bars]
            assert [rows[y] for y in middles] == list(method_rows["task"])
        daggers = [x for line in labelled(axes, "at chance: D means little") for x in line.get_xdata()]
        assert len(daggers) == part["at_chance"].sum() > 0


def test_marks_of_models_that_learnt_nothing():
    """In the figures of D: they take the place of the daggers and hollow marks of pruned models."""
    mixtures = pairs(SMALL)
    combined, seeds = dissociation_tables(mixtures)
    nothing = combined.assign(unpruned_at_chance=combined["at_chance"] & combined["task"].eq("mean"))
    (axes,) = dissociation.draw(nothing, seeds, mixtures, FRACTION, 0.1).axes
    counts = {look["label"]: sum(len(line.get_xdata()) for line in labelled(axes, look["label"]))
              for look in (marks.DAGGER, marks.CROSS)}  # fmt: skip
    assert list(counts.values()) == [nothing["at_chance"].sum() - 1, 1]
    table, areas = fractions_tables(mixtures)
    table["unpruned_at_chance"] = table["task"].eq("mean") & table["method"].eq("frozen")
    (axes,) = fractions.draw(table, areas, mixtures, FRACTION, "tuned").axes
    (crossed,) = [line for line in axes.lines if line.get_marker() == "x" and len(line.get_xdata())]
    control = table[table["unpruned_at_chance"]]
    np.testing.assert_allclose(crossed.get_ydata(), 100 * control["dissociation"])
    assert labelled(axes, "crossed: unpruned model at chance")


def test_tasks_of_which_nothing_is_learnt_are_marked_where_their_metrics_are():
    """In the figures of pruned metrics, after their names; without any, nothing is said."""
    for name in ("matrix", "curves"):
        module, (pruning, nothing, *rest) = every_figure()[name]
        texts, without = (
            "\n".join(text.get_text() for text in module.draw(pruning, each, *rest).findobj(Text))
            for each in (nothing, nothing_of(SMALL, 0))
        )
        assert f"{SMALL[0]} ×" in texts and f"{SMALL[1]} ×" not in texts
        assert texts.count("unpruned model at chance") == 1 and "×" not in without


def test_dissociation_intervals_dots_and_line():
    combined, seeds = dissociation_tables(pairs(SMALL), methods=["tuned"])
    other = pd.concat([seeds.assign(fraction=0.1, dissociation=0.9), seeds])  # another fraction is not shown
    axes = dissociation.draw(combined, other, pairs(SMALL), FRACTION, 0.1).axes[0]
    intervals = np.array(
        [segment[:, 0] for segment in labelled(axes, "interval over examples")[0].get_segments()]
    )
    np.testing.assert_allclose(intervals, 100 * combined[["ci_low", "ci_high"]])
    dots = np.sort(labelled(axes, "one seed")[0].get_xdata())
    means = seeds.groupby("seed")["dissociation"].mean()
    np.testing.assert_allclose(dots, np.sort(100 * pd.concat([seeds["dissociation"], means])))
    assert labelled(axes, "distinct: 10 %")[0].get_xdata()[0] == pytest.approx(10)
    assert not labelled(axes, "at chance: D means little")


def test_fractions_show_every_value_of_the_table():
    table, areas = fractions_tables(mixtures := pairs(SMALL) | {"all": SMALL})
    figure = fractions.draw(table, areas, mixtures, FRACTION, "tuned")
    assert [axes.get_title().split("\n")[0] for axes in figure.axes] == list(mixtures)
    for axes, (mixture, tasks) in zip(figure.axes, mixtures.items(), strict=True):
        in_mixture = table[table["mixture"] == mixture]
        tuned = in_mixture[in_mixture["method"] == "tuned"]
        for task, label in [*((t, t) for t in tasks), ("mean", "mean over tasks")]:
            (line,) = labelled(axes, label)
            rows = tuned[tuned["task"] == task]
            np.testing.assert_allclose(line.get_ydata(), [0, *100 * rows["dissociation"]])
            np.testing.assert_allclose(line.get_xdata(), [0, *100 * rows["fraction"]], atol=1)
        (control,) = labelled(axes, "mean, frozen")
        frozen = in_mixture[(in_mixture["method"] == "frozen") & (in_mixture["task"] == "mean")]
        np.testing.assert_allclose(control.get_ydata()[1:], 100 * frozen["dissociation"])
        (area,) = areas.query("mixture == @mixture and method == 'tuned' and task == 'mean'")["area"]
        assert axes.get_title().split("\n")[1].startswith(f"mean {number(100 * area, 1)} [")
        assert labelled(axes, "hollow: at chance")


def test_curves_run_from_the_base_through_the_fractions():
    pruning = {seed: pruning_table(SMALL, seed) for seed in (0, 1)}
    figure = curves.draw(pruning, nothing_of(SMALL, 0), SMALL, FRACTION, dict.fromkeys(SMALL, "accuracy"))
    for axes, task in zip(figure.axes, SMALL, strict=True):
        drawn = [line for line in axes.lines if len(line.get_xdata()) == 6]
        solid = [line for line in drawn if line.get_linestyle() == "-"]
        dashed = [line for line in drawn if line.get_linestyle() == "--"]
        assert (len(solid), len(dashed)) == (2, 1)
        for line in drawn:
            np.testing.assert_allclose(line.get_xdata(), [0, 10, 20, 30, 40, 50])
        own_heads = max(solid, key=lambda line: line.get_linewidth())
        table = pd.concat(pruning.values())
        table = table[(table["task"] == task) & (table["metric"] == "accuracy")]
        for line, order in ((own_heads, "top"), (dashed[0], "bottom")):
            means = (
                table[(table["pruned_for"] == task) & (table["order"] == order)]
                .groupby("fraction")["value"]
                .mean()
            )
            np.testing.assert_allclose(line.get_ydata()[1:], 100 * means)
        draws = table[table["pruned_for"] == "random"]["value"]
        box = labelled(axes, "random: range of draws, mean")[0][0]
        assert (box.get_y(), box.get_y() + box.get_height()) == pytest.approx(
            (100 * draws.min(), 100 * draws.max())
        )
        assert labelled(axes, "chance")[0].get_ydata()[0] == pytest.approx(50)


def test_curves_of_numbers_of_heads_have_numbers():
    pruning = {0: pruning_table(SMALL, 0)}
    metrics = dict.fromkeys(SMALL, "accuracy")
    figure = curves.draw(pruning, nothing_of(SMALL), SMALL, FRACTION, metrics, counted=True)
    numbers = [0, *(prune_count(fraction, 72) for fraction in (0.1, 0.2, 0.3, 0.4, 0.5))]
    for axes in figure.axes:
        assert axes.get_xlabel() == "heads pruned"
        drawn = [line for line in axes.lines if len(line.get_xdata()) == 6]
        assert len(drawn) == 3 and all(list(line.get_xdata()) == numbers for line in drawn)
        box = labelled(axes, "random by layer")[0][0]
        assert box.get_x() == pytest.approx(prune_count(FRACTION, 72))


def test_reliability_shows_every_correlation():
    table = reliability_table(pairs(SMALL), seeds=3)
    axes = reliability.draw(table, {}).axes[0]
    points = np.concatenate([line.get_xdata() for line in axes.lines])
    shown = table[table["kind"] != "methods"]
    np.testing.assert_allclose(np.sort(points), np.sort(shown["spearman"]))
    count = {(line.get_marker(), line.get_markerfacecolor()): len(line.get_xdata()) for line in axes.lines}
    mixtures = len(pairs(SMALL))
    assert count["D", reliability.FILLS["frozen"]] == 3 * 2 * mixtures  # pairs of seeds, tasks
    assert count["^", reliability.FILLS["tuned"]] == 3 * 2 * mixtures  # seeds, tasks
    assert [text.get_text() for text in axes.figure.legends[0].get_texts()] == [
        "split half", "two seeds", "two tasks", *BOTH,
    ]  # fmt: skip
    alone = reliability.draw(table[table["kind"] == "split_half"], {}).legends[0].get_texts()
    assert [text.get_text() for text in alone] == ["split half", *BOTH]


# --- brain encoding, files and captions ---------------------------------------------------------


def test_encoding_boxes_are_quantiles_over_voxels_and_dots_are_means():
    seeds = {seed: encoding_table(SMALL, seed) for seed in (0, 1)}
    summaries = {seed: summary_table(SMALL, seed) for seed in seeds}
    axes = brain_encoding.draw(seeds, summaries, SMALL[::-1]).axes[0]
    counts = [text.get_text() for text in axes.texts if "/" in text.get_text()]
    assert counts == [f"{SMALL.index(task) + 1}/5" for task in SMALL[::-1]]
    assert [label.get_text() for label in axes.get_yticklabels()] == [*SMALL[::-1], "other subjects"]
    both = pd.concat(seeds.values())
    r = both[both["task"] == SMALL[1]].groupby(["subject", "voxel"])["r"].mean()
    box = axes.patches[0].get_path().vertices[:, 0]
    assert (box.min(), box.max()) == pytest.approx(tuple(r.quantile([0.25, 0.75])))
    dots = labelled(axes, "mean of one subject")
    np.testing.assert_allclose(dots[0].get_xdata(), r.groupby("subject").mean())
    best = seeds[0].groupby("subject")["ceiling"].mean()
    np.testing.assert_allclose(dots[-1].get_xdata(), best)


def test_encoding_of_one_subject_has_no_ceiling():
    axes = brain_encoding.draw(
        {0: encoding_table(SMALL, 0, 1, ceiling=False)}, {0: summary_table(SMALL, 0, 1)}, SMALL
    ).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == SMALL
    assert len(axes.patches) == 2


@pytest.mark.parametrize("name", every_figure())
@pytest.mark.slow
def test_same_tables_same_bytes(name, tmp_path):
    module, arguments = every_figure()[name]
    assert_same_bytes(lambda: module.draw(*arguments), tmp_path, "png", "pdf")


@pytest.mark.parametrize(
    "tasks",
    [pytest.param(tasks, marks=pytest.mark.slow) for tasks in (SMALL, LARGE, NINE)] + [LONG],
    ids=["small", "large", "nine", "long"],
)
@pytest.mark.parametrize("name", every_figure())
def test_texts_neither_overlap_nor_leave_the_figure(name, tasks):
    module, arguments = every_figure(tasks)[name]
    assert_readable(module.draw(*arguments))


@pytest.mark.slow
def test_figures_load_neither_torch_nor_pyplot():
    """Those of all modules, for what one loads the others would load as well."""
    paths = [path.relative_to(ROOT / "workflow") for path in (ROOT / "workflow/headspec/plots").rglob("*.py")]
    modules = ", ".join(".".join(path.with_suffix("").parts) for path in paths)
    code = f"import sys, {modules}; print({{'torch', 'matplotlib.pyplot'}} & set(sys.modules))"
    path = {"PYTHONPATH": str(ROOT / "workflow")}
    done = subprocess.run([sys.executable, "-c", code], env=path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    "caption", sorted((ROOT / "workflow" / "report").glob("*.rst")), ids=lambda p: p.stem
)
def test_captions_render(caption):
    config = {"study": "demo", "models": {"minilm": {}}, "tasks": dict.fromkeys(SMALL), "seeds": [0, 1]}
    wildcards = SimpleNamespace(
        model="minilm", mixture="sentiment+topic-pair", method="tuned", measure="rsa", task="t"
    )
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(caption.read_text())
    strict = {"halt_level": 2, "report_level": 5}
    for draw_examples in (None, 37):
        params = SimpleNamespace(draw_examples=draw_examples)
        text = template.render(snakemake=SimpleNamespace(config=config, wildcards=wildcards, params=params))
        assert "<p" in docutils.core.publish_string(text, writer="html", settings_overrides=strict).decode()
        noisy = caption.stem in ("matrix", "curves") and draw_examples is not None
        assert noisy == ("a different sample of 37 validation" in text)


def test_every_figure_has_a_caption():
    captions = {path.stem for path in (ROOT / "workflow" / "report").glob("*.rst")}
    rules = (ROOT / "workflow" / "rules" / "figures.smk").read_text()
    figures = re.findall(r"\bFigure\(\s*\"([\w/]+)\"", rules)
    assert captions == {*(name.replace("/", "_") for name in figures), "workflow"}


def summary_lines(combined: pd.DataFrame, **frames: pd.DataFrame) -> list[str]:
    """The summary, every line of which folds into a terminal of any width, and loses nothing."""
    whole = summary.text(combined, Path("results/demo"), **frames)
    for width in (20, 60, 100):
        folded = summary.text(combined, Path("results/demo"), width, **frames)
        assert folded.split() == whole.split()
        wide = [line for line in folded.splitlines() if len(line) > width and " " in line.strip()]
        assert all(re.fullmatch(r" *\[[^]]*\]\S*", line) for line in wide), wide
    return whole.splitlines()


def test_summary_begins_with_what_was_found_and_ends_with_where_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("figures", "report.html", "tables"):  # there is no explorer
        (tmp_path / "results/demo" / name).mkdir(parents=True)
    row = dict(model="minilm", n_seeds=2, ci_over="examples", fraction=0.1)
    values = [
        ("a+b", "tuned", "a", 0.127, 0.101, 0.153, 0.0002, False, None, False),
        ("a+b", "tuned", "b", 0.09, 0.05, 0.1, 0.0421, True, None, False),
        ("a+b", "tuned", "mean", 0.1085, 0.08, 0.12, 0.0001, True, "double", True),
        ("a+b", "frozen", "mean", 0.0, -0.02, 0.02, 1.0, False, "none", False),
        ("c+d", "tuned", "mean", 0.2, 0.08, 0.25, 0.0421, False, "single", False),
        ("c+d", "frozen", "mean", -0.01, -0.02, 0.02, 1.0, False, "none", False),
    ]
    names = [
        "mixture",
        "method",
        "task",
        "dissociation",
        "ci_low",
        "ci_high",
        "p_holm",
        "at_chance",
        "case",
        "distinct",
    ]
    rows = [row | dict(zip(names, each, strict=True)) for each in values]
    lines = summary_lines(frame("combined", rows))
    found = "10 % of heads, 2 mixtures: tuned 1 double, 1 single; frozen 2 none"
    assert lines[0] == f"found      {found}" and lines[1] == ""
    assert lines[2].split("10")[0].strip() == "minilm"
    table = [line.split() for line in lines[4:8]]
    assert table == [  # the largest first
        ["c+d", "tuned", "20.0", "[", "8.0,", "25.0]", "0.042", "single"],
        ["frozen", "-1.0", "[", "-2.0,", "2.0]", "1.000", "none"],
        ["a+b", "tuned", "10.8†", "[", "8.0,", "12.0]", "<0.001", "distinct"],
        ["frozen", "0.0", "[", "-2.0,", "2.0]", "1.000", "none"],
    ]
    assert len({line.index("[") for line in lines[4:8]}) == 1  # columns in line
    assert "[ ]        interval over examples alone: one or two seeds do not show how others vary" in lines
    assert lines[-4:] == [
        "not shown  2 rows by task: tables/combined.parquet",
        "figures    results/demo/figures",
        "report     results/demo/report.html",
        "tables     results/demo/tables",
    ]


def test_summary_counts_no_model_that_learnt_nothing():
    """It says so first; here one of two frozen mixtures, and IAT of the other."""
    mixtures = {"a+b": ["a", "b"], "a+c": ["a", "c"]}
    combined, _ = dissociation_tables(mixtures)
    fractions, areas = fractions_tables(mixtures)

    def marked(table, **values):
        at = pd.Series(True, table.index)
        for name, value in values.items():
            at &= table[name].isin(value)
        return table.assign(unpruned_at_chance=at)

    nothing = {"mixture": ["a+b"], "method": ["frozen"], "task": ["b", "mean"]}
    combined, fractions, areas = (marked(table, **nothing) for table in (combined, fractions, areas))
    mean_rows = combined["task"].eq("mean") & combined["unpruned_at_chance"]
    combined.loc[mean_rows, ["case", "distinct"]] = "chance", False
    areas["ci_low"] = 0.01
    pair = {
        "model": "minilm",
        "contrast": "methods",
        "method": "tuned",
        "mixture": "pairs",
        "against": "frozen",
    }
    contrasts = frame("contrasts", [pair | {"n_mixtures": 0, "n_left_out": 2}])
    row = {"model": "minilm", "task": "mean", "at_chance": True, "unpruned_at_chance": True}
    after = frame("specialization", [row | {"mixture": "all", "after": 0.1, "difference": 0.05}])
    believed = dict(
        model="minilm", mixture="a+b", method="frozen", task="mean", ranking="importance", area=0.1,
        unpruned_at_chance=True,
    )  # fmt: skip
    lines = summary_lines(
        combined, fractions=fractions, areas=areas, contrasts=contrasts, specialization=after,
        belief=frame("belief", [believed]),
    )  # fmt: skip
    found = lines[: lines.index("")]
    assert found[0] == "at chance  frozen: b (1 of 1 mixture)"
    assert found[1].strip() == "no better unpruned than a constant prediction; counted in no line below"
    counts = combined[mean_rows | combined["task"].eq("mean")].groupby("method")["case"].value_counts()
    assert counts["frozen", "chance"] == 1 and found[2].endswith(" 1 chance")
    assert found[3].endswith("interval of D above 0: tuned 2 of 2; frozen 1 of 1")
    assert found[4].strip() == "minilm, tuned: no pairs learnt, to compare with frozen" and len(found) == 5
    (line,) = [line for line in lines[len(found) :] if " chance " in line and "[" in line]
    assert line.split()[0] == "frozen" and "1.000" not in line


def test_summary_of_one_measure_of_similarity():
    combined, _ = dissociation_tables({"a+b": ["a", "b"]}, seeds=1)
    row = {"model": "minilm", "measure": "text", "pearson_r": -0.98, "p_mantel": 1 / 3}
    lines = summary_lines(combined, correlation=frame("correlation", [row]))
    assert lines[1].strip() == "r of D and similarity -0.98 (text), p 0.333"


def test_summary_of_rankings_of_heads():
    """Means over mixtures of the tuned models; the best by its smallest area."""
    combined, _ = dissociation_tables({"all": SMALL}, seeds=1)
    rows = []
    for mixture, method, ranking, area, p, d, spearman, size in (
        ("x", "tuned", "importance", 0.5, 0.01, 0.1, 0.1, 0.9),
        ("y", "tuned", "importance", 0.6, 0.2, 0.2, 0.3, 0.8),
        ("x", "tuned", "relevance", 0.7, 0.01, 0.3, 0.5, 0.4),
        ("x", "tuned", "random", 0.8, None, None, None, None),
        ("x", "frozen", "confidence", 0.1, 0.01, 0.9, 1.0, 1.0),
    ):
        row = dict(model="m", mixture=mixture, method=method, task="mean", ranking=ranking, area=area)
        row |= dict(difference=area - 0.8, difference_p_holm=p, dissociation=d, ablation_spearman=spearman)
        rows += [row | dict(ablation_size_spearman=size), row | dict(task="a", area=0.0)]
    belief = frame("belief", rows)
    lines = summary_lines(combined, belief=belief)
    assert lines[1].strip() == "smallest area (tuned): importance 55.0 %, random 80.0 %, p < 0.05 in 1 of 2"
    assert lines[2].strip() == "most like ablation: relevance 0.50, like its size: importance 0.85"
    assert f"{len(belief)} rows by ranking of heads: tables/belief.parquet" in "\n".join(lines)


def test_summary_shows_whole_names_and_every_method():
    names = ["rotten-tomatoes-sentences-binary", "a", "topic-pair"]
    combined, _ = dissociation_tables({"all": names, "+".join(names): names}, seeds=1)
    combined["dissociation"] *= 100  # per cent with five digits
    third = combined[combined["method"] == "tuned"].assign(method="lora")
    lines = summary_lines(pd.concat([combined, third]))
    (first,) = [i for i, line in enumerate(lines) if line.startswith("+".join(names))]
    assert [line.split("[")[0].split()[-2] for line in lines[first : first + 3]] == [
        "tuned",
        "lora",
        "frozen",
    ]


def test_summary_of_a_large_study_shows_every_mixture():
    models = ("minilm", "another-model", "a-third")
    mixtures = pairs(LARGE)
    combined, _ = dissociation_tables(mixtures, models=models)
    fractions, areas = fractions_tables(mixtures)
    correlation = frame("correlation", [{"model": m, "measure": "cka", "pearson_r": 0.5} for m in models])
    more = {"fractions": fractions, "areas": areas, "correlation": correlation}
    lines = summary_lines(combined, **more)
    n = len(models) * len(mixtures)
    assert f"{n} mixtures: " in lines[0]
    table = lines[lines.index("") + 3 :]
    table = table[: table.index("")]
    assert len(table) == n * combined["method"].nunique()
    d = combined.query("task == 'mean' and method == 'tuned'")["dissociation"]
    shown = [float(line.split("tuned")[1].split()[0].strip("†")) for line in table if "tuned" in line]
    assert shown == [round(100 * each, 1) for each in sorted(d, reverse=True)]
    assert f"{len(fractions)} rows by fraction of heads: tables/fractions.parquet" in "\n".join(lines)


def test_summary_of_all_fractions():
    combined, _ = dissociation_tables(pairs(SMALL))
    fractions, areas = fractions_tables(pairs(SMALL))
    lines = summary_lines(combined.assign(fraction=FRACTION), fractions=fractions, areas=areas)
    assert lines[0].startswith(f"found      {100 * FRACTION:g} % of heads, ")
    means = areas[areas["task"] == "mean"].set_index("method")
    above = {method: int(means.loc[method, "ci_low"] > 0) for method in BOTH}
    assert lines[1].endswith(
        f"interval of D above 0: tuned {above['tuned']} of 1; frozen {above['frozen']} of 1"
    )
    for method in BOTH:
        (line,) = [line for line in lines if f" {method} " in line and "[" in line]
        assert line.split()[-3] == "[" and f"{100 * means.loc[method, 'area']:.1f}" in line.split()
    single = fractions[fractions["fraction"] == FRACTION]
    assert "all fractions" not in "\n".join(summary_lines(combined, fractions=single, areas=areas))


def test_summary_of_correlations():
    combined = frame("combined", [{"model": "m", "mixture": "a+b", "method": "tuned", "task": "mean"}])
    rows = [
        {"model": "m", "measure": "cka", "pearson_r": -0.814, "p_mantel": 0.0301},
        {"model": "m", "measure": "dse", "pearson_r": 0.25, "p_mantel": 0.0002},
        {"model": "m", "measure": "rsa", "pearson_r": 0.1},
        {"model": "m", "measure": "text"},
    ]
    combined["distinct"] = False
    lines = summary_lines(combined, correlation=frame("correlation", rows))
    assert lines[1].split("similarity ")[1] == "-0.81 (cka) to 0.25 (dse), lowest p of 2 <0.001 (dse)"
    rows[1]["model"] = "other"
    lines = summary_lines(combined, correlation=frame("correlation", rows))
    found = "-0.81 (m, cka) to 0.25 (other, dse), lowest p of 2 <0.001 (other, dse)"
    assert lines[1].split("similarity ")[1] == found
    assert summary_lines(combined, correlation=frame("correlation", rows[3:]))[1] == ""


def test_summary_of_tables_of_an_older_headspec(tmp_path):
    combined, _ = dissociation_tables(pairs(SMALL))
    (tmp_path / "tables").mkdir()
    path = tmp_path / "tables" / "combined.parquet"
    tables.write(path, SCHEMAS["combined"], combined, {})
    tables.save(path, pq.read_table(path).drop_columns("unpruned_at_chance"))
    with pytest.raises(
        HeadspecError, match="combined.parquet: no column 'unpruned_at_chance'.*; run snakemake again"
    ):
        summary.summarize(tmp_path)


@pytest.mark.slow
def test_summary_of_a_results_folder(tmp_path):
    combined, _ = dissociation_tables(pairs(SMALL))
    tables.write(tmp_path / "tables" / "combined.parquet", SCHEMAS["combined"], combined, {})
    done = subprocess.run(
        [sys.executable, "-m", "headspec", "summary", str(tmp_path)],
        env={"PYTHONPATH": str(ROOT / "workflow"), "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    assert done.stdout.rstrip("\n") == summary.text(
        tables.read(tmp_path / "tables" / "combined.parquet"), tmp_path
    )
