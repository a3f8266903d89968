"""Figures of task similarity and its correlation with dissociation: what they show."""

import itertools

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from headspec.config.measures.similarity import MEASURES as REGISTERED
from headspec.plots.drawing import marks
from headspec.plots.drawing.heat_maps import MISSING
from headspec.plots.drawing.marks import AT_CHANCE, LEFT_OUT, PARADIGMS
from headspec.plots.drawing.style import number
from headspec.plots.similarity import draw_correlation, draw_scatter, draw_similarity
from headspec.statistics.correlation import correlation as correlate
from headspec.statistics.correlation import paired
from support.figures import NINE, labelled, made, words

MEASURES = {name: measure.label for name, measure in REGISTERED.items()}
SIX = ["cola", "mnli", "qnli", "qqp", "sst2", "topic-pair"]
MODELS = ("bert-base", "minilm", "roberta-base")


def made_up_study(tasks: list[str], models: tuple[str, ...] = MODELS[:1]) -> dict:
    """Tables of a study with random similarity and dissociation; `cnm` has two subjects."""
    paradigms = {task: ("single", "pair")[i % 2] for i, task in enumerate(tasks)}
    pairs, model = list(itertools.combinations(tasks, 2)), list(models)
    alike, combined = [], []
    for i, (a, b) in enumerate(pairs):
        pair = dict(model=model, task_a=a, task_b=b)
        alike.append(made("similarity", i, **pair, measure=list(MEASURES)))
        alike.append(made("similarity", i, **pair, measure="cnm", subject="s1"))
        row = dict(model=model, mixture=f"{a}+{b}", method="tuned", task="mean", unpruned_at_chance=False)
        combined.append(made("combined", i, **row))
    similarity = pd.concat(alike, ignore_index=True)
    same = similarity["task_a"].map(paradigms) == similarity["task_b"].map(paradigms)
    at = similarity["measure"] == "paradigm"
    similarity.loc[at, "similarity"] = same[at].astype(float)
    return correlated(similarity, pd.concat(combined, ignore_index=True), paradigms)


def correlated(similarity: pd.DataFrame, combined: pd.DataFrame, paradigms: dict[str, str]) -> dict:
    pairs = paired(similarity, combined, paradigms, "tuned")
    return dict(similarity=similarity, combined=combined, paradigms=paradigms, pairs=pairs,
                correlation=correlate(pairs, 0))  # fmt: skip


def drawn(draw, study: dict, **more):
    """The figure that `draw` makes from the tables of a study."""
    arguments = {name: study[name] for name in ("similarity", "combined", "correlation", "paradigms")}
    return draw(**arguments, method="tuned", labels=MEASURES, **more)


def dots(axes) -> np.ndarray:
    """(n, 2) of the points of `axes`, sorted."""
    names = {label for label, _ in PARADIGMS.values()} | {AT_CHANCE}
    shown = [line.get_xydata() for name in names for line in labelled(axes, name)]
    return np.array(sorted(map(tuple, np.concatenate(shown))))


def expected_dots(part: pd.DataFrame) -> np.ndarray:
    return np.array(sorted(zip(part["similarity"], 100 * part["dissociation"], strict=True)))


def test_points_intervals_line_and_title_of_a_scatter():
    study = made_up_study(SIX, MODELS)
    figure = drawn(draw_scatter, study, measure="cnm")
    for axes, model in zip(figure.axes, MODELS, strict=True):
        part = study["pairs"].query("model == @model and measure == 'cnm'")
        result = study["correlation"].query("model == @model and measure == 'cnm'").iloc[0]
        np.testing.assert_allclose(dots(axes), expected_dots(part))
        hollow = sum(len(line.get_xdata()) for line in labelled(axes, AT_CHANCE))
        assert hollow == part["at_chance"].sum() > 0
        upright, level = (lines.get_segments() for lines in axes.collections)
        np.testing.assert_allclose([ends[:, 1] for ends in upright], 100 * part[["ci_low", "ci_high"]])
        ends = [segment[:, 0] for segment in level]
        np.testing.assert_allclose(ends, part[["similarity_low", "similarity_high"]])
        (line,) = labelled(axes, "least squares")
        expected = 100 * (result["intercept"] + result["slope"] * line.get_xdata())
        np.testing.assert_allclose(line.get_ydata(), expected)
        p = f"Mantel p = {result['p_mantel']:.3f}"
        partial = f"partial r = {number(result['partial_r'])}, p = {result['p_partial']:.3f}"
        assert axes.get_title() == f"{model}, 15 pairs\nr = {number(result['pearson_r'])}, {p}\n{partial}"
        assert axes.get_xlabel() == "similarity: CNM"


def test_pairs_that_are_left_out_are_crossed():
    study = made_up_study(SIX)
    nothing = {"model": MODELS[0], "mixture": "cola+mnli", "method": "tuned", "task": "cola"}
    combined = pd.concat([study["combined"], pd.DataFrame([nothing | {"unpruned_at_chance": True}])])
    study = correlated(study["similarity"], combined, study["paradigms"])
    (axes,) = drawn(draw_scatter, study, measure="rsa").axes
    (crossed,) = labelled(axes, LEFT_OUT)
    part = study["pairs"].query("measure == 'rsa' and left_out")
    np.testing.assert_allclose(crossed.get_ydata(), 100 * part["dissociation"])
    assert len(part) == 5 and len(dots(axes)) == 10 and "10 pairs" in axes.get_title()


def test_numbers_of_a_scatter_name_their_pairs_and_keep_clear_of_points():
    study = made_up_study([*SIX, "mrpc", "rte"])
    figure = drawn(draw_scatter, study, measure="rsa")
    (axes,) = figure.axes
    points = study["pairs"].query("measure == 'rsa'").set_index("mixture")
    key = dict(text.split(maxsplit=1) for text in words(figure.legends[0].get_texts()))
    assert list(key.values()) == [mixture.replace("+", " + ") for mixture in points.index]
    places = {key[text.get_text()].replace(" + ", "+"): text.xy for text in axes.texts}
    assert len(places) == len(points) == len(axes.texts) == 28
    for mixture, place in places.items():
        row = points.loc[mixture]
        assert tuple(place) == pytest.approx((row["similarity"], 100 * row["dissociation"]))
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in axes.texts]
    centres = axes.transData.transform(dots(axes))
    assert len(centres) == 28 and not any(box.contains(*centre) for box in boxes for centre in centres)


@pytest.mark.slow
def test_a_pair_without_value_is_left_out():
    study = made_up_study(["cola", "mnli", "qnli", "qqp"])
    study["similarity"].loc[study["similarity"]["measure"] == "rsa", "similarity"] = [np.nan, *np.ones(5)]
    study = correlated(study["similarity"], study["combined"], study["paradigms"])
    axes = drawn(draw_scatter, study, measure="rsa").axes[0]
    assert axes.get_title() == "bert-base, 5 pairs\nr undefined"
    assert {*words(axes.texts)} == {"2", "3", "4", "5", "6"}
    assert not labelled(axes, "least squares")
    titles = [axes.get_title() for axes in drawn(draw_correlation, study).axes]
    assert titles[-1] == "RSA\nr undefined" and len(titles) == len(MEASURES)


@pytest.mark.slow
def test_measures_are_in_the_order_of_their_strength():
    study = made_up_study(SIX, MODELS)
    table = study["correlation"]
    mean = table[table["model"] != "pooled"]["pearson_r"].abs().groupby(table["measure"]).mean()
    expected = list(mean.sort_values(ascending=False).index)
    figure = drawn(draw_correlation, study)
    pairs = study["pairs"].groupby(["model", "measure"])
    panels = itertools.product(MODELS, expected)
    for axes, (model, measure) in zip(figure.axes, panels, strict=True):
        part = pairs.get_group((model, measure))
        np.testing.assert_allclose(dots(axes), expected_dots(part))
        result = table[(table["model"] == model) & (table["measure"] == measure)].iloc[0]
        first, second = axes.get_title().split("\n")
        assert first == MEASURES[measure] and second.startswith(f"r = {number(result['pearson_r'])}, p ")
    assert [axes.get_title("left").strip() for axes in figure.axes[:: len(MEASURES)]] == list(MODELS)


def matrices_and_trees(figure) -> tuple[list, list]:
    """Axes with pictures, and the others but the key of shades, in which no value is grey."""
    *panels, bar = figure.axes
    assert words(bar.get_xticklabels()) == ["lowest", "highest"]
    pictures = [axes.images[0] for axes in panels if axes.images]
    assert {to_hex(image.cmap.get_bad()) for image in pictures} == {to_hex(MISSING)}
    return tuple([axes for axes in panels if bool(axes.images) == drawn] for drawn in (True, False))


@pytest.mark.parametrize("tasks", [SIX[:3], NINE], ids=["three", "nine"])
def test_matrices_show_values_in_the_order_of_the_tree(tasks):
    table = made_up_study(tasks)["similarity"]
    matrices, trees = matrices_and_trees(draw_similarity(table, tasks, MEASURES))
    assert [axes.get_title() for axes in matrices] == list(MEASURES.values())
    means = table[table["subject"].isna()].set_index(["measure", "task_a", "task_b"])["similarity"]
    for axes, tree, measure in zip(matrices, trees, MEASURES, strict=True):
        rows = [text.split()[0] for text in words(axes.get_yticklabels())]
        assert sorted(rows) == sorted(tasks)
        assert rows == [tasks[int(number) - 1] for number in words(axes.get_xticklabels())]
        shades = np.ma.filled(axes.images[0].get_array(), np.nan)
        assert len(axes.texts) == len(tasks) * (len(tasks) - 1)
        for text in axes.texts:
            column, row = text.get_position()
            a, b = sorted((rows[row], rows[column]), key=tasks.index)
            assert shades[row, column] == means[measure, a, b]
            assert float(text.get_text().replace("−", "-")) == pytest.approx(means[measure, a, b], abs=0.0051)
        assert len(tree.lines) == len(tasks) - 1
        ends = {y for line in tree.lines for x, y in line.get_xydata() if x == 0}
        assert set(range(len(tasks))) <= ends or measure == "paradigm"
        last = max(line.get_xdata().max() for line in tree.lines)
        assert last <= 1 - means[measure].min() + 1e-9


def test_a_missing_similarity_is_a_dash_and_has_no_tree():
    table = made_up_study(SIX[:3])["similarity"].query("measure in ('rsa', 'cnm')").copy()
    table.loc[(table["measure"] == "cnm") & (table["task_a"] == "cola"), "similarity"] = np.nan
    matrices, trees = matrices_and_trees(draw_similarity(table, SIX[:3], MEASURES))
    assert [len(axes.lines) for axes in trees] == [2, 0]
    assert sorted(words(matrices[1].texts))[-4:] == ["–"] * 4
    assert words(matrices[1].get_xticklabels()) == ["1", "2", "3"]
    table["similarity"] = np.nan
    assert {*words(draw_similarity(table, SIX[:3], MEASURES).axes[0].texts)} == {"–"}


def test_two_tasks_are_drawn_without_correlation():
    study = made_up_study(SIX[:2])
    for figure in (drawn(draw_scatter, study, measure="rsa"), drawn(draw_correlation, study)):
        assert any("undefined" in axes.get_title() for axes in figure.axes)
    draw_similarity(study["similarity"], SIX[:2], MEASURES).draw_without_rendering()


def test_names_in_a_crowd_find_free_places():
    axes = Figure(figsize=(3, 3)).subplots()
    axes.set(xlim=(-1, 1), ylim=(-1, 1))
    points = np.random.default_rng(0).normal(scale=0.02, size=(12, 2))
    names = [str(number) for number in range(1, 13)]
    marks.name_points(axes, points, names, np.empty((0, 4)))
    boxes = [text.get_window_extent() for text in axes.texts]
    assert sorted(words(axes.texts)) == sorted(names)
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    assert len(axes.lines) > 0  # distant names are joined to their points
