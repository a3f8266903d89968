"""The explorer in Chromium: what it shows and does, and that it makes no requests."""

import contextlib
import csv
import io
import shutil
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from playwright import sync_api as playwright

from headspec import tables
from headspec.explorer.finished import write_explorer
from headspec.explorer.views import VIEWS
from support.data.explored import HOSTILE, study
from support.paths import ROOT
from support.schemas import SCHEMAS

CHROMIUM = shutil.which("chromium")
pytestmark = [pytest.mark.needs("chromium"), pytest.mark.thorough]
QUIET = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
QUIET += "--disable-component-update --disable-sync"
RUN = "model", "mixture", "method"


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    return study(tmp_path_factory.mktemp("explored") / "results" / "small", tasks=("a", *HOSTILE))


@pytest.fixture(scope="module")
def table(results) -> Callable[[str], pd.DataFrame]:
    return lambda name: tables.read(results / "tables" / f"{name}.parquet")


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=QUIET.split())
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def file(results) -> str:
    return write_explorer(results).as_uri()


@contextlib.contextmanager
def opened(browser, address: str, **settings) -> Iterator[playwright.Page]:
    """The page; a message in the console, an error, a dialog or a request fails the test."""
    context = browser.new_context(accept_downloads=True, **settings)
    page, wrong = context.new_page(), []
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(error.message))
    page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
    allowed = (address.partition("#")[0], "data:", "blob:")
    page.on("request", lambda request: None if request.url.startswith(allowed) else wrong.append(request.url))
    page.goto(address, timeout=300_000)
    yield page
    context.close()
    assert not wrong


@pytest.fixture
def page(browser, file):
    with opened(browser, file) as page:
        yield page


def visit(page, view: str) -> None:
    page.locator(f"#to-{view}").click()


def chosen(page, name: str) -> str:
    return page.locator(f"#choose-{name}").input_value()


def choose(page, name: str, value: str) -> None:
    page.locator(f"#choose-{name}").select_option(value)


def of_run(page, frame: pd.DataFrame) -> pd.DataFrame:
    """Rows of a table of the model, mixture and method that the controls choose."""
    return frame[(frame[[*RUN]] == [chosen(page, name) for name in RUN]).all(axis=1)]


def values(page, panel: str, which: str = "") -> list[float]:
    marks = page.locator(f"#panel-{panel} [data-value]{which}").all()
    return [float(mark.get_attribute("data-value")) for mark in marks]


def n_filled(page, panel: str) -> int:
    """The number of marks of differences that tests call clear."""
    return page.locator(f"#panel-{panel} .point:not(.hollow)").count()


def assert_shows(page, panel: str, expected: pd.Series) -> None:
    np.testing.assert_allclose(values(page, panel), expected, rtol=1e-5, atol=1e-6)


def assert_shows_in_any_order(page, panel: str, expected: pd.Series) -> None:
    np.testing.assert_allclose(np.sort(values(page, panel)), np.sort(expected), rtol=1e-5, atol=1e-6)


def saved_csv(page, panel: str) -> list[dict[str, str]]:
    """What a panel saves as CSV."""
    with page.expect_download() as saved:
        page.locator(f"#panel-{panel} .exports button").last.click()
    return list(csv.DictReader(io.StringIO(Path(saved.value.path()).read_text(), newline="")))


def test_the_study_begins_with_the_finding_and_its_marks_open_mixtures(page, table):
    """The largest D of tuned models is first. A frozen one that learnt nothing is crossed."""
    means = table("combined").query("task == 'mean'")
    tuned = means[means["method"] == "tuned"].sort_values("dissociation", ascending=False)
    rows = means.set_index(["mixture", "method"]).loc[
        [(mixture, method) for mixture in tuned["mixture"] for method in ("tuned", "frozen")]
    ]
    assert_shows(page, "study-0", rows["dissociation"])
    saved = [float(row["dissociation"]) for row in saved_csv(page, "study-0")]
    np.testing.assert_allclose(saved, rows["dissociation"], rtol=1e-5)
    found, n = page.locator(".found li").all_inner_texts(), len(tuned)
    assert found[1] == f"30 % of heads, {n} mixtures: tuned {n} none; frozen {n - 1} none, 1 chance"
    printed = page.locator("#panel-study-0 .printed").all_text_contents()
    assert all(", p " in text for text in printed)
    (crossed,) = [text for text in printed if "×" in text]
    assert crossed.endswith("chance")
    page.locator("#panel-study-0 [role=button][aria-label*='unpruned model at chance']").click()
    assert page.locator("#panel-tasks text", has_text="×").count() == 2  # the task and the mean
    page.go_back()
    page.locator("#panel-study-0 [role=button]").nth(2).click()
    assert (
        page.locator("h2").inner_text() == "Mixture" and chosen(page, "mixture") == tuned["mixture"].iloc[1]
    )


def test_a_mixture_is_shown_in_per_cent_with_random_heads_beside_the_slider(page, table):
    """The first one is that of the largest D."""
    visit(page, "mixture")
    tuned = table("combined").query("task == 'mean' and method == 'tuned'")
    assert chosen(page, "mixture") == tuned.loc[tuned["dissociation"].idxmax(), "mixture"]
    printed = [float(text) for text in page.locator("#panel-matrix .number").all_text_contents()]
    np.testing.assert_allclose(printed, 100 * np.array(values(page, "matrix")), atol=0.051)
    box, line = page.locator("#panel-curve-0 .box"), page.locator("#panel-curve-0 .cursor").first
    right = float(box.get_attribute("x")) + float(box.get_attribute("width"))
    assert right < float(line.get_attribute("x1"))
    assert "each on 40 of 100 examples" in page.locator("#panel-curve-0 .note").inner_text()


def test_pairs_of_the_similarity_are_named_and_r_is_of_the_points(page, table):
    visit(page, "similarity")
    rows = table("combined").query("task == 'mean'")
    for method in ("tuned", "frozen"):
        choose(page, "method", method)
        own = rows[rows["method"] == method]
        assert_shows_in_any_order(page, "similarity", own["dissociation"])
        names = page.locator("#panel-similarity svg text", has_text="pair").all_text_contents()
        assert sorted(name.split()[1] for name in names) == sorted(own["mixture"])
        r = page.locator("#panel-similarity .note").inner_text().count("r = ")
        assert r == (method == "tuned")


CONTRASTS = """() => {
    const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
    const light = (colour) => colour.map((v) => v / 255)
        .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const colour = (node, name) => numbers(getComputedStyle(node)[name]).slice(0, 3);
    const ground = colour(document.body, "backgroundColor");
    return [...document.querySelectorAll(".sign, .closed[stroke-opacity='1']")].flatMap((path) => {
        const mark = light(colour(path, "stroke"));
        const cells = [...path.ownerSVGElement.querySelectorAll("[data-head]")];
        return [...path.getAttribute("d").matchAll(/M([\\d.]+) ([\\d.]+)/g)].map(([, x, y]) => {
            const inside = (value) => value > 0 && value < 27;
            const at = (each, name, value) => inside(value - each.getAttribute(name));
            const cell = cells.find((each) => at(each, "x", x) && at(each, "y", y));
            const share = Number(cell.getAttribute("fill-opacity")), fill = colour(cell, "fill");
            const under = light(ground.map((v, i) => v + share * (fill[i] - v)));
            return (Math.max(mark, under) + 0.05) / (Math.min(mark, under) + 0.05);
        });
    });
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_marks_of_heads_are_read_on_every_shade_and_shades_have_a_key(browser, file, table, scheme):
    with opened(browser, f"{file}#view=heads", bypass_csp=True, color_scheme=scheme) as page:
        page.locator("#panel-change-b svg").wait_for()
        found = page.evaluate(CONTRASTS)
        assert len(found) > 20 and min(found) >= 3
        ends = page.locator("#panel-map-a svg .axis > text").all_text_contents()[-2:]
        rows = saved_csv(page, "map-a")
    largest = max(float(row["importance"]) for row in rows)
    assert [float(text) for text in ends] == [0, pytest.approx(largest, rel=0.01)]


def test_the_slider_moves_numbers_and_masks_together(page, table):
    visit(page, "mixture")
    lines = page.locator("[id^=panel-curve] .chance").all()
    assert [float(line.get_attribute("data-chance")) for line in lines] == [0.55] * 2
    rows = of_run(page, table("fractions")).sort_values(
        "task", key=lambda task: task == "mean", kind="stable"
    )
    for key, fraction, pruned in (("Home", 0.1, 1), ("End", 0.5, 6)):
        page.locator("#fraction").focus()
        page.keyboard.press(key)
        assert_shows(page, "tasks", rows[np.isclose(rows["fraction"], fraction)]["dissociation"])
        visit(page, "heads")
        assert page.locator("#panel-map-a .note").inner_text().count(f"the {pruned} heads") == 1
        visit(page, "mixture")


def test_heads_are_selected_by_keyboard_in_all_maps_and_kept_in_the_link(page, browser):
    visit(page, "heads")
    boxes = [page.locator(f"#panel-map-a [data-head='{i}']").bounding_box() for i in (0, 4, 8)]
    assert boxes[0]["y"] > boxes[1]["y"] > boxes[2]["y"]  # layers stand as in figures
    page.locator("#panel-map-a [data-head='0']").focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    assert page.locator(".cell.chosen").count() == 6 and page.locator(".dot.chosen").count() == 2
    assert page.locator("#chosen").inner_text().count("Layer 1, head 0") >= 1
    assert "rank by seed" in page.locator("#hint").inner_text()
    with opened(browser, page.url) as other:
        assert other.locator("h2").inner_text() == "Heads"
        cells = other.locator(".cell.chosen").all()
        assert [cell.get_attribute("data-head") for cell in cells] == ["4"] * 6


WRONG = """() => [...document.querySelectorAll("main svg")].flatMap((svg) => {
    const box = svg.viewBox.baseVal;
    const groups = [...svg.querySelectorAll("text.group")].map((node) => node.textContent);
    const inside = (node) => {
        const at = node.getBBox();
        return at.y >= -1 && at.y + at.height <= box.height + 1;
    };
    return [...(/NaN|Infinity|undefined/.test(svg.outerHTML) ? ["no number"] : []),
        ...(new Set(groups).size < groups.length ? ["a heading twice"] : []),
        ...([...svg.querySelectorAll(".printed, .group, .point")].every(inside) ? [] : ["outside"])];
})"""


@pytest.mark.parametrize("seed", range(3))
def test_missing_numbers_leave_no_hole_and_no_mark_in_any_view(browser, tmp_path, seed):
    """Of random mixtures, or of all; each heading is there once, and what is drawn is inside its picture."""
    folder = study(tmp_path / "results" / "small", tasks=("a", "b", "c", "d"))
    rng = np.random.default_rng(seed)
    for path in (folder / "tables").glob("*.parquet"):
        frame = tables.read(path)
        lost = rng.random(len(frame)) < (0.4, 0.8, 1)[seed]
        values = [name for name in frame.select_dtypes(float) if name not in ("fraction", "p_holm")]
        frame.loc[lost, values] = np.nan
        tables.write(path, SCHEMAS[path.stem], frame, tables.footer(path))
    address = write_explorer(folder).as_uri()
    with opened(browser, address) as page:
        for view in page.locator("nav a").all():
            view.click()
            page.wait_for_timeout(300)
            assert not page.evaluate(WRONG), view.inner_text()


def test_a_task_has_one_colour_in_all_mixtures(browser, tmp_path):
    file = write_explorer(study(tmp_path / "results" / "small", tasks=("x", "y", "z")))
    looks: dict[str, set[str]] = {}
    with opened(browser, f"{file.as_uri()}#view=mixture") as page:
        for mixture in ("pair0", "pair1", "pair2"):
            choose(page, "mixture", mixture)
            for mark in page.locator("#panel-tasks [data-value]").all():
                task = mark.get_attribute("aria-label").split(",")[1].split(":")[0].strip(" \u2068\u2069")
                looks.setdefault(task, set()).add(mark.get_attribute("class").split()[1])
            for name in page.locator("[id^=panel-curve] .name").all():
                task = name.text_content().removeprefix("top, ")
                if task in "xyz":
                    looks.setdefault(task, set()).add(name.get_attribute("class").split()[1])
    assert [len(looks[task]) for task in "xyz"] == [1, 1, 1]
    assert len(set.union(*looks.values())) == 4 and looks["mean"] == {"c5"}


def test_what_heads_know_is_that_of_all_labels(page, table):
    visit(page, "words")
    assert_shows(page, "known", table("probes").query("label.isna()")["selectivity"])
    assert len(values(page, "sharing")) == len(table("sharing"))


def test_gains_are_read_by_keyboard_measured_and_predicted(page, table):
    visit(page, "grouping")
    assert_shows_in_any_order(page, "gains", table("gains").query("method == 'tuned'")["difference"])
    cells = page.locator("#panel-gains [data-value]")
    for cell in cells.all():
        side = "below" if float(cell.get_attribute("data-value")) > 0 else "above"  # orange: gained
        assert side in cell.get_attribute("class")
    assert page.locator("#panel-gains [tabindex='0']").count() == 1
    cells.first.focus()
    page.keyboard.press("ArrowRight")
    second = cells.nth(1).get_attribute("aria-label")
    assert page.locator("#hint").inner_text() == second and "corrected p" in second
    for key in ("ArrowDown", "ArrowLeft", "ArrowUp"):  # past the diagonal, where there is no cell
        page.keyboard.press(key)
    assert page.locator("#hint").inner_text() != second
    choose(page, "predictor", "head-fisher")
    predicted = table("gain_predictions").query("held_out == 1 and predictor == 'head-fisher'")["predicted"]
    assert_shows_in_any_order(page, "gains", predicted)
    cells.first.hover()
    assert page.locator("#hint").inner_text().count("; measured ") == 1
    scores = table("gain_prediction_scores")
    assert_shows_in_any_order(page, "predictors", scores["spearman"])
    assert n_filled(page, "predictors") == (scores["p_holm"] < 0.05).sum()
    assert page.locator("#panel-predictors tbody tr").count() == len(scores)


def test_kinds_of_attention_have_maps_of_their_own(browser, tmp_path):
    kinds = {"encoder": 2, "decoder": 1, "cross": 1}
    file = write_explorer(study(tmp_path / "results" / "kinds", shape=(4, 3), kinds=kinds))
    with opened(browser, f"{file.as_uri()}#view=heads") as page:
        page.wait_for_selector("#panel-map-a svg")
        shown = page.locator("#panel-map-a svg text").all_text_contents()
        assert [text for text in shown if "attention" in text] == [
            "encoder self-attention", "decoder self-attention", "cross-attention"
        ]  # fmt: skip
        lines = saved_csv(page, "map-a")
    found = [(line["attention"], int(line["layer"])) for line in lines if line["head"] == "0"]
    assert found == [("encoder", 0), ("encoder", 1), ("decoder", 0), ("cross", 0)]


@pytest.mark.parametrize("view", VIEWS)
def test_every_panel_of_a_view_saves_its_picture_and_its_table(page, view):
    assert page.locator("nav a").count() == len(VIEWS)
    visit(page, view)
    text = page.locator("main").inner_text()
    assert text.count("\n") > 1 and "[object" not in text
    names = [panel.get_attribute("id") for panel in page.locator(".panel:has(.behind)").all()]
    for place, name in enumerate(names):
        if place % 5 == 4:
            page.wait_for_timeout(1100)  # Chromium drops the eleventh without a pause of a second
        assert saved_csv(page, name.removeprefix("panel-")), name
        if page.locator(f"#{name} svg").count():
            with page.expect_download() as saved:
                page.locator(f"#{name} .exports button").first.click()
            text = Path(saved.value.path()).read_text()
            picture = ElementTree.fromstring(text)
            drawn = [picture.findall(f".//*[@data-{mark}]") for mark in ("head", "value")]
            marks = page.locator(f"#{name} svg [data-head], #{name} svg [data-value]").count()
            assert sum(map(len, drawn)) == marks
            assert text.startswith("<svg") and "var(" not in text and "class=" not in text, name


def test_differences_of_tasks_are_the_tested_ones_in_either_order(page, table):
    visit(page, "heads")
    choose(page, "mixture", "pair0")
    choose(page, "table", "confidence")
    rows = of_run(page, table("task_differences")).query("measure == 'confidence'")
    tasks = rows["task"].iloc[0], rows["against"].iloc[0]
    for sign in (1, -1):
        for name, task in zip("ab", tasks[::sign], strict=True):
            choose(page, name, task)
        lines = saved_csv(page, "map-difference")
        for column, expected in (("confidence", sign * rows["difference"]), ("p", rows["p_holm"])):
            np.testing.assert_allclose([float(line[column]) for line in lines], expected, rtol=1e-3)
        clear = np.sign(sign * rows["difference"])[rows["p_holm"] < 0.05]
        for kind, expected in (("plus", (clear > 0).sum()), ("minus", (clear < 0).sum())):
            drawn = page.locator(f"#panel-map-difference .sign.{kind}").all()
            assert expected and sum(path.get_attribute("d").count("M") for path in drawn) == expected


@pytest.mark.parametrize("measure", ["ablation_size", "relevance"])
def test_changes_by_training_are_those_of_the_tables(page, table, measure):
    """As shares of the sum over heads for a measure that grows with the loss."""
    visit(page, "heads")
    choose(page, "table", measure)
    assert chosen(page, "before") == "frozen"
    task, mixture, rows = chosen(page, "a"), chosen(page, "mixture"), table("heads")
    rows = rows[(rows["mixture"] == mixture) & (rows["task"] == task) & (rows["measure"] == measure)]
    means = rows.groupby(["method", "layer", "head"])["value"].mean()
    now, before = (
        means[method] / means[method].abs().sum() if measure == "ablation_size" else means[method]
        for method in ("tuned", "frozen")
    )
    shown = [float(line[measure]) for line in saved_csv(page, "change-a")]
    np.testing.assert_allclose(shown, now - before, atol=2e-4 * now.abs().max())
    choose(page, "before", "none")
    assert page.locator("#panel-change-a").count() == 0


def test_confidence_is_shown_with_and_without_separators(page, table):
    visit(page, "heads")
    choose(page, "table", "confidence_no_separator")
    rows = of_run(page, table("heads"))
    rows = rows[rows["task"] == chosen(page, "a")]
    for measure in ("confidence_with_separator", "confidence", "confidence_no_separator"):
        shown = page.locator(f"#panel-{measure} [data-head]").all()
        words = [float(cell.get_attribute("aria-label").rsplit(" ", 1)[1]) for cell in shown]
        means = rows[rows["measure"] == measure].groupby(["layer", "head"])["value"].mean()
        np.testing.assert_allclose(words, means, rtol=0.01)


def test_rankings_are_compared_as_in_the_tables(page, table):
    visit(page, "belief")
    belief = of_run(page, table("belief")).query("task == 'mean'").sort_values("area")
    for column in ("area", "dissociation", "ablation_spearman", "ablation_size_spearman"):
        assert_shows(page, column, belief[column].dropna())
    assert n_filled(page, "area") == (belief["difference_p_holm"] < 0.05).sum()
    assert n_filled(page, "dissociation") == (belief["dissociation_p_holm"] < 0.05).sum()
    curves = of_run(page, table("pruning_curves"))
    for place, order in ((0, "top"), (1, "bottom")):
        shown = curves[(curves["task"] == curves["task"].unique()[place]) & (curves["order"] == order)]
        assert_shows_in_any_order(page, f"ranked-{order}-{place}", shown["value"])
    assert "layers of" not in page.locator("#panel-ranked-top-0").inner_text()
    agreement = of_run(page, table("agreement")).groupby(["measure_a", "measure_b"])
    means = agreement[["spearman", "top_overlap"]].mean()
    assert_shows_in_any_order(page, "agreement", means.stack())


def test_random_heads_of_the_same_layers_are_beside_their_ranking(browser, results, table, tmp_path):
    own = table("pruning_curves").query("order == 'top' and ranking == 'importance'")
    same = own.assign(order="same_layers", value=own["value"] / 2)
    shutil.copytree(results, copied := tmp_path / "results")
    path = copied / "tables" / "pruning_curves.parquet"
    curves = pd.concat([table("pruning_curves"), same], ignore_index=True)
    tables.write(path, SCHEMAS["pruning_curves"], curves, tables.footer(path))
    with opened(browser, f"{write_explorer(copied).as_uri()}#view=belief") as page:
        of = of_run(page, curves)
        of = of[(of["task"] == of["task"].unique()[0]) & of["order"].isin(["top", "same_layers"])]
        assert_shows_in_any_order(page, "ranked-top-0", of["value"])
        assert "layers of importance" in page.locator("#panel-ranked-top-0").inner_text()


def test_a_change_by_training_is_filled_only_if_other_seeds_would_show_it(browser, tmp_path):
    """Of a study with ten seeds, whose p over examples alone is below 0.05 for most variants."""
    kept = ROOT / "docs" / "studies" / "iat-minilm"
    table = tables.read(kept / "tables" / "improvement.parquet")
    table = table[(table["task"] == "mean") & table["difference"].notna()]
    with opened(browser, f"{write_explorer(kept, tmp_path / 'kept.html').as_uri()}#view=iat") as page:
        page.wait_for_selector("#panel-iat svg")
        assert len(values(page, "iat svg")) == len(table) > (table["p_holm"] < 0.05).sum() > 10
        filled = values(page, "iat svg", ":not(.hollow)")
    np.testing.assert_allclose(filled, table.loc[table["p_seeds_holm"] < 0.05, "difference"], rtol=1e-3)


def test_hostile_names_are_text(page):
    visit(page, "heads")
    choose(page, "mixture", "pair4")
    assert page.locator("script").count() == 2 and page.locator("main b").count() == 0
    assert HOSTILE[1] in page.locator("#choose-a").inner_text() + page.locator("#choose-b").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_window_and_axe_finds_nothing_serious(browser, file, scheme):
    with opened(browser, file, bypass_csp=True, color_scheme=scheme) as page:
        page.add_script_tag(path=files("axe_playwright_python") / "axe.min.js")
        for width in (390, 820, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            for view in VIEWS:
                visit(page, view)
                assert page.evaluate("document.documentElement.scrollWidth") <= width, view
        for view in VIEWS:
            visit(page, view)
            found = page.evaluate("axe.run()")["violations"]
            serious = [each for each in found if each["impact"] in ("serious", "critical")]
            assert not serious, [(each["id"], each["nodes"][0]["html"][:200]) for each in serious]


def test_a_large_study_is_small_and_quick(browser, tmp_path):
    """384 heads, seven tasks in all pairs, two seeds and the atlas: what a click draws before it is shown."""
    file = write_explorer(study(tmp_path / "results" / "large", [f"task{i}" for i in range(7)], (24, 16), 2))
    assert file.stat().st_size < 7e6
    clicked = """(id) => {
        const node = document.getElementById(id);
        node.selectedIndex = (node.selectedIndex + 1) % node.length;
        node.dispatchEvent(new Event("change"));
        return document.querySelectorAll("main *").length;
    }"""
    with opened(browser, file.as_uri()) as page:
        for where in ("mixture mixture", "heads mixture", "heads a", "heads table", "belief method"):
            view, name = where.split()
            visit(page, view)
            made = [page.evaluate(clicked, f"choose-{name}") for _ in range(3)]
            assert max(made) < 2000, (where, made)  # about 25 microseconds each
        visit(page, "heads")
        page.locator("#panel-roles .chart").wait_for()  # drawn later
        assert page.locator("main *").count() > 2000
