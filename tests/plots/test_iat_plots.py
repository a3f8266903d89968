"""Figures and summary of IAT: what they show equals what the tables hold."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from headspec import tables
from headspec.config import variants
from headspec.config.sections.iat import IAT
from headspec.config.study import Study, plain
from headspec.pipeline.commands import summary
from headspec.plots.drawing.style import interval_label
from headspec.plots.training import alpha_delta, improvement, specialization, verdict
from headspec.statistics.training.improvement import against, by_seed
from support.figures import LONG, NINE, SMALL, assert_readable, assert_same_bytes, frame, labelled
from support.schemas import SCHEMAS

KEYS = ["model", "mixture", "method", "task", "metric"]
FEW = IAT(mixtures=["all"], controls=["random"], alphas=[0.5])
MANY = IAT(
    mixtures=["all"], controls=["random", "random-by-layer", "bottom", "other", "lora"],
    alphas=[0.1, 0.5, 0.7, 1], deltas=[0.05, 0.2, 0.3], samplings=["sqrt", "annealed"],
)  # fmt: skip
#: every control at every point, and plain training with rewarmed rates
WHOLE = IAT(
    mixtures=["all"], controls=variants.CONTROLS, sweep_controls=True, rate="rewarmed",
    alphas=[0.1, 0.6], deltas=[0.3, 0.5], reserve=0.5,
)  # fmt: skip
#: name: tasks, seeds, section `iat`
CASES = {"small": (SMALL, 1, FEW), "nine": (NINE, 3, MANY), "long": (LONG, 2, MANY)}
CASES["whole"] = NINE, 3, WHOLE
MAIN = {"cola": "matthews", "stsb": "spearman", "mrpc": "f1"}


def study(tasks: list[str], seeds: int, iat: IAT) -> Study:
    return Study(
        study="s", seeds=list(range(seeds)), models={"m": {"source": "x"}},
        tasks={task: {"source": "x"} for task in tasks},
        mixtures={"groups": {"all": tasks}}, iat=iat,
    )  # fmt: skip


def metrics(tasks: list[str]) -> dict[str, str]:
    return {task: MAIN.get(task, "accuracy") for task in tasks}


def labels(config: Study) -> dict[str, str]:
    return variants.labels(variant.heads for variant in config.variants)


def iat_table(config: Study) -> pd.DataFrame:
    """Scores of every run: IAT a little better than MTL, single tasks far from it."""
    rng = np.random.default_rng(0)
    rows = []
    for run in config.iat_runs:
        gain = {"single": rng.normal(-0.02, 0.04), "tuned": 0.0}.get(run.method, 0.006)
        for task in run.tasks:
            base = 0.9 - 0.04 * config.in_order(list(config.tasks)).index(task)
            value = base + gain + rng.normal(0, 0.006)
            row = dict(model="m", mixture=run.mixture, method=run.method, seed=run.seed, task=task)
            rows.append(row | {"metric": MAIN.get(task, "accuracy"), "value": value})
    return frame("iat", rows)


def improvement_table(config: Study, scores: pd.DataFrame) -> pd.DataFrame:
    """The table 'improvement', with made-up statistics."""
    rng = np.random.default_rng(1)
    kinds = {v.method: v for v in config.variants}
    rows = []
    for key, part in by_seed(scores, {"all": list(config.tasks)}, config.variants).groupby(KEYS):
        row = dict(zip(KEYS, key, strict=True)) | {"n_seeds": len(part), "value": part["value"].mean()}
        if row["method"] in kinds:
            row |= {
                name: getattr(kinds[row["method"]], name) for name in ("sampling", "heads", "alpha", "delta")
            }
        if row["method"] != "tuned":
            d, half = part["difference"].mean(), 0.003 + 0.01 * rng.random()
            row |= {"against": against(config.variants)[row["method"]], "difference": d}
            row |= {"ci_low": d - half, "ci_high": d + half, "p_value": 0.02, "p_holm": 0.1 * rng.random()}
            row["p_seeds_holm"] = 0.1 * rng.random() if len(part) > 2 else None
            row |= {"ci_over": "seeds and examples" if len(part) > 2 else "examples"}
        rows.append(row)
    return frame("improvement", rows)


def specialization_tables(tasks: list[str], seeds: int) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Tables 'specialization', 'iat_combined' and 'iat_dissociation'; the last task is at chance."""
    rng = np.random.default_rng(2)
    d = {"tuned": rng.normal(0.1, 0.05, (seeds, len(tasks)))}
    d["iat"] = d["tuned"] + rng.normal(0.04, 0.03, (seeds, len(tasks)))
    d = {method: np.column_stack([values, values.mean(axis=1)]) for method, values in d.items()}
    where = dict(model="m", mixture="all")
    of, combined, runs = [], [], []
    for i, task in enumerate([*tasks, "mean"]):
        before, after = d["tuned"][:, i].mean(), d["iat"][:, i].mean()
        row = where | dict(task=task, n_seeds=seeds, before=before, after=after, difference=after - before)
        row |= dict(
            ci_low=after - before - 0.03, ci_high=after - before + 0.03, at_chance=i >= len(tasks) - 1
        )
        row |= dict(ci_over="examples")
        of.append(row)
        for method, mean in (("tuned", before), ("iat", after)):
            row = where | dict(method=method, task=task, n_seeds=seeds, dissociation=mean)
            combined.append(row | dict(ci_low=mean - 0.03, ci_high=mean + 0.03, ci_over="examples"))
            if task != "mean":
                runs += [
                    where | dict(method=method, task=task, seed=s, dissociation=d[method][s, i], fraction=0.3)
                    for s in range(seeds)
                ]
    return frame("specialization", of), frame("combined", combined), frame("dissociation", runs)


def every_figure(tasks: list[str], seeds: int, iat: IAT) -> dict[str, tuple]:
    """Name: module and arguments."""
    config = study(tasks, seeds, iat)
    scores = iat_table(config)
    table = improvement_table(config, scores)
    more = ("all", tasks, metrics(tasks), [plain(variant) for variant in config.variants], labels(config))
    return {
        "improvement": (improvement, (table, scores, *more)),
        "specialization": (specialization, (*specialization_tables(tasks, seeds), tasks, 0.3)),
        "alpha-delta": (alpha_delta, (table,)),
        "verdict": (verdict, (table, labels(config))),
    }


@pytest.fixture(scope="module", params=CASES)
def case(request) -> tuple[list[str], Study, dict[str, tuple]]:
    tasks, seeds, iat = CASES[request.param]
    return tasks, study(tasks, seeds, iat), every_figure(tasks, seeds, iat)


def test_improvement_shows_every_difference_of_every_method(case):
    tasks, config, figures = case
    table, scores, *rest = figures["improvement"][1]
    seeds = by_seed(scores, {"all": tasks}, config.variants)
    figure = improvement.draw(table, scores, *rest)
    titles = [axes.get_title() for axes in figure.axes]
    assert titles[0] == "IAT" and titles[-1] == "single-task"
    methods = list(improvement.shown(table, rest[-1])["method"])
    assert set(methods) == {m for m in against(config.variants) if "delta" not in m}
    for axes, method in zip(figure.axes, methods, strict=True):
        rows = table[table["method"] == method].set_index("task").loc[["mean", *tasks]]
        points = labelled(axes, improvement.POINT["label"])
        np.testing.assert_allclose([p.get_xdata()[0] for p in points], 100 * rows["difference"])
        assert [p.get_ydata()[0] for p in points] == list(range(len(rows)))
        filled = [p.get_markerfacecolor() == "black" for p in points]
        decides = rows["p_seeds_holm"] if len(config.seeds) > 2 else rows["p_holm"]
        assert filled == list((decides < 0.05) & (rows["ci_low"] * rows["ci_high"] > 0))
        lines = np.array([s[:, 0] for s in labelled(axes, interval_label(rows))[0].get_segments()])
        np.testing.assert_allclose(lines, 100 * rows[["ci_low", "ci_high"]])
        (dots,) = labelled(axes, "one seed")
        of = seeds[seeds["method"] == method].sort_values(["task", "seed"])
        assert sorted(dots.get_xdata()) == pytest.approx(sorted(100 * of["difference"]))
        assert sorted(np.round(dots.get_ydata())) == sorted(list(range(len(rows))) * len(config.seeds))
    values = table[table["method"] == "tuned"].set_index("task")["value"]
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names[0] == f"mean {100 * values['mean']:.1f}"
    assert names[1].startswith(f"{tasks[0]}, ") and names[1].endswith(f" {100 * values[tasks[0]]:.1f}")


def test_methods_that_continue_from_mtl_share_a_scale():
    figure = improvement.draw(*every_figure(*CASES["nine"])["improvement"][1])
    limits = {axes.get_title(): axes.get_xlim() for axes in figure.axes}
    assert limits["IAT"] == limits["LoRA"] == limits["IAT, sqrt\nvs MTL, sqrt"]
    assert limits["single-task"] == limits["MTL, sqrt sampling"] != limits["IAT"]


def test_rounding_does_not_fill_the_scale():
    table, scores, *rest = every_figure(*CASES["small"])["improvement"][1]
    columns = ["difference", "ci_low", "ci_high"]
    table[columns], scores["value"] = 1e-17 * np.sign(table[columns]), 0.5
    for axes in improvement.draw(table, scores, *rest).axes:
        assert axes.get_xlim() == pytest.approx((-0.1, 0.1))


def test_specialization_bars_and_differences_equal_the_tables(case):
    tasks, config, figures = case
    table, combined, runs = figures["specialization"][1][:3]
    left, right = specialization.draw(table, combined, runs, tasks, 0.3).axes
    rows = ["mean", *tasks]
    assert [label.get_text() for label in left.get_yticklabels()] == rows
    expected = table.set_index("task").loc[rows]
    for bars, column in zip(left.containers, ("before", "after"), strict=True):
        np.testing.assert_allclose([bar.get_width() for bar in bars], 100 * expected[column])
    (means,) = labelled(right, "mean over seeds")
    np.testing.assert_allclose(means.get_xdata(), 100 * expected["difference"])
    lines = np.array([s[:, 0] for s in labelled(right, "interval over examples")[0].get_segments()])
    np.testing.assert_allclose(lines, 100 * expected[["ci_low", "ci_high"]])
    dots = np.array([line.get_xdata() for line in labelled(right, "one seed")])
    assert dots.shape == (len(config.seeds), len(rows))
    np.testing.assert_allclose(dots.mean(axis=0), 100 * expected["difference"])
    (daggers,) = labelled(right, "at chance: D means little")
    assert [rows[int(y)] for y in daggers.get_ydata()] == ["mean", tasks[-1]]


def test_alpha_delta_cells_are_the_means_of_the_sweep():
    (table,) = every_figure(*CASES["nine"])["alpha-delta"][1]
    axes = alpha_delta.draw(table).axes[0]
    alphas, deltas = [0.1, 0.3, 0.5, 0.7, 1], [0.05, 0.1, 0.2, 0.3]
    assert [label.get_text() for label in axes.get_xticklabels()] == [f"{100 * a:g}" for a in alphas]
    assert [label.get_text() for label in axes.get_yticklabels()] == [f"{100 * d:g}" for d in deltas]
    shades = np.asarray(axes.images[0].get_array())
    places = {text.get_position(): text.get_text() for text in axes.texts}
    means = table[table["task"] == "mean"].set_index("method")
    for (y, delta), (x, alpha) in itertools.product(enumerate(deltas), enumerate(alphas)):
        main = (alpha, delta) == (0.3, 0.1)
        row = means.loc["iat" if main else f"iat-alpha{alpha:g}-delta{delta:g}"]
        assert shades[y, x] == pytest.approx(100 * row["difference"])
        words = [places[x, y + 0.14], places[x, y - 0.22]]
        numbers = [100 * row[name] for name in ("difference", "ci_low", "ci_high")]
        expected = [f"{numbers[0]:+.2f}", f"[{numbers[1]:.2f}, {numbers[2]:.2f}]".replace("-0.00", "0.00")]
        assert [word.replace("\N{MINUS SIGN}", "-") for word in words] == expected
    (outline,) = [p for p in axes.patches if isinstance(p, Rectangle) and not p.get_fill()]
    assert (outline.get_x() + 0.5, outline.get_y() + 0.5) == (1, 1)
    low, high = axes.images[0].get_clim()
    assert low <= 0 <= high


def test_the_verdict_has_every_variant_in_the_panels_of_its_alpha_and_delta(case):
    _, config, figures = case
    table, names = figures["verdict"][1]
    figure = verdict.draw(table, names)
    means, drawn = table[table["task"] == "mean"].set_index("method"), []
    for axes in figure.axes:
        delta, alpha = (float(part.split()[1]) / 100 for part in axes.get_title().split(","))
        at = (None, pytest.approx(alpha)), pytest.approx(delta)
        here = [v for v in config.variants if v.base == "tuned" and v.alpha in at[0] and v.delta == at[1]]
        row = axes.get_subplotspec().rowspan.start
        first = next(each for each in figure.axes if each.get_subplotspec().rowspan.start == row)
        ticks = [label.get_text() for label in first.get_yticklabels()]
        points = {ticks[int(p.get_ydata()[0])]: p for p in labelled(axes, improvement.POINT["label"])}
        assert set(points) == {names[v.heads] for v in here} and len(here) == len(points)
        for v in here:
            mean, point = means.loc[v.method], points[names[v.heads]]
            p = mean["p_seeds_holm"] if len(config.seeds) > 2 else mean["p_holm"]
            assert point.get_xdata()[0] == pytest.approx(100 * mean["difference"])
            filled = p < 0.05 and mean["ci_low"] * mean["ci_high"] > 0
            assert (point.get_markerfacecolor() == "black") == filled
        ends = np.sort([s[:, 0] for s in labelled(axes, interval_label(means))[0].get_segments()], axis=0)
        rows = means.loc[[v.method for v in here], ["ci_low", "ci_high"]]
        np.testing.assert_allclose(ends, np.sort(100 * rows, axis=0))
        drawn += [v.method for v in here]
    assert set(drawn) == {v.method for v in config.variants if v.heads and v.base == "tuned"}


def test_differences_of_methods_that_learnt_nothing_are_crossed_and_hollow():
    tasks, seeds, iat = CASES["small"]
    figures = every_figure(tasks, seeds, iat)
    for name in ("improvement", "verdict"):
        module, (table, *rest) = figures[name]
        table = table.assign(unpruned_at_chance=table["method"].eq("iat"), ci_low=0.01, p_holm=0.0)
        figure = module.draw(table, *rest)
        crosses = [line for axes in figure.axes for line in labelled(axes, improvement.CROSS["label"])]
        drawn = np.concatenate([line.get_xdata() for line in crosses])
        rows = table[table["method"].eq("iat")]
        if name == "verdict":
            rows = rows[rows["task"].eq("mean")]
        np.testing.assert_allclose(np.unique(drawn), np.unique(100 * rows["difference"]))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["improvement", "specialization", "alpha-delta", "verdict"])
def test_texts_neither_overlap_nor_leave_the_figure(case, name):
    module, arguments = case[2][name]
    assert_readable(module.draw(*arguments))


@pytest.mark.parametrize("name", ["improvement", "specialization", "alpha-delta", "verdict"])
@pytest.mark.slow
def test_same_tables_same_bytes(name, tmp_path):
    def draw() -> Figure:
        module, arguments = every_figure(*CASES["small"])[name]
        return module.draw(*arguments)

    assert_same_bytes(draw, tmp_path, "png")


# --- the summary


COMBINED = frame("combined", [{"model": "m", "mixture": "a+b", "method": "tuned", "task": "mean"}])


def summary_lines(**frames: pd.DataFrame) -> list[str]:
    return summary.text(COMBINED.assign(distinct=False), Path("r"), **frames).splitlines()


def test_summary_of_improvement():
    common = {"model": "m", "mixture": "a+b", "task": "mean", "metric": "mean"}
    rows = [
        {"method": "iat", "value": 0.7234, "against": "tuned", "difference": 0.0084, "ci_low": -0.001}
        | {"ci_high": 0.0171, "ci_over": "seeds and examples", "p_holm": 0.0213},
        {"method": "tuned", "value": 0.715},
        {"method": "single", "value": 0.7, "against": "tuned", "difference": -0.015, "ci_low": -0.02}
        | {"ci_high": -0.01, "p_holm": 0.0002},
    ]
    task_rows = [row | {"task": "a", "metric": "f1"} for row in rows]
    lines = summary_lines(improvement=frame("improvement", [common | row for row in [*rows, *task_rows]]))
    assert lines[1].strip() == "m, a+b: mean metric after IAT 72.3 %, change 0.8 [-0.1, 1.7], p 0.021"
    assert "not shown  5 rows by method and task: tables/improvement.parquet" in lines


def test_summary_of_specialization():
    row = {"model": "m", "mixture": "a+b", "before": 0.1, "after": 0.142, "difference": 0.042}
    row |= {"ci_low": 0.01, "ci_high": 0.07, "ci_over": "examples", "at_chance": False}
    rows = [row | {"task": "z"}, row | {"task": "mean", "at_chance": True}]
    lines = summary_lines(specialization=frame("specialization", rows))
    assert lines[1].strip() == "m, a+b: D after IAT 14.2 %†, change 4.2 [1.0, 7.0]"
    assert "not shown  1 rows of D before and after IAT: tables/specialization.parquet" in lines


def test_summary_shows_iat_of_every_mixture():
    tasks, seeds, iat = CASES["long"]
    config = study(tasks, seeds, iat)
    table = improvement_table(config, iat_table(config))
    more = pd.concat(table.assign(mixture=f"mixture-{i}") for i in range(5))
    lines = summary_lines(improvement=more, specialization=specialization_tables(tasks, seeds)[0])
    assert sum("mean metric after IAT" in line for line in lines) == 5
    assert any(
        line.endswith(f"{len(more) - 5} rows by method and task: tables/improvement.parquet")
        for line in lines
    )


def test_summary_of_a_stored_table(tmp_path):
    path = tmp_path / "tables" / "improvement.parquet"
    config = study(SMALL, 2, FEW)
    tables.write(path, SCHEMAS["improvement"], improvement_table(config, iat_table(config)), {})
    assert "mean metric after IAT" in "\n".join(summary_lines(improvement=tables.read(path)))
