"""The explorer in Chromium: what it shows, what it does, and that it asks for nothing."""

import csv
import io
import shutil
from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from playwright import sync_api as playwright

from headspec import tables
from headspec.explorer.finished import write_explorer
from support.data.explored import HOSTILE, study
from support.paths import ROOT

CHROMIUM = shutil.which("chromium")
pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]
QUIET = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
QUIET += "--disable-component-update --disable-sync"
VIEWS = [
    "study", "mixture", "heads", "belief", "similarity", "iat", "gates", "words", "grouping", "glossary",
    "provenance",
]  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    return study(tmp_path_factory.mktemp("explored") / "results" / "small", tasks=("a", *HOSTILE))


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=QUIET.split())
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def file(results) -> str:
    return write_explorer(results).as_uri()


@pytest.fixture
def page(browser, file):
    """The page; a message in the console, an error, a dialog or a request fails the test."""
    context = browser.new_context(accept_downloads=True)
    opened, wrong = context.new_page(), []
    opened.on("console", lambda message: wrong.append(message.text))
    opened.on("pageerror", lambda error: wrong.append(error.message))
    opened.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
    allowed = (file, "data:", "blob:")
    opened.on(
        "request", lambda request: None if request.url.startswith(allowed) else wrong.append(request.url)
    )
    opened.goto(file)
    yield opened
    context.close()
    assert not wrong


def visit(page, view: str) -> None:
    page.locator(f"#to-{view}").click()


def values(page, panel: str) -> list[float]:
    marks = page.locator(f"#{panel} [data-value]").all()
    return [float(mark.get_attribute("data-value")) for mark in marks]


def test_numbers_of_the_study_are_the_table(page, results):
    table = tables.read(results / "tables" / "combined.parquet").query("task == 'mean'")
    np.testing.assert_allclose(values(page, "panel-study-0"), table["dissociation"], rtol=1e-5)
    saved = [float(row["dissociation"]) for row in saved_csv(page, "study-0")]
    np.testing.assert_allclose(saved, table["dissociation"], rtol=1e-5)


def test_models_that_learnt_nothing_are_crossed_and_counted_apart(page):
    """A frozen one, in one of its tasks."""
    assert " none, 1 chance." in page.locator(".lead").inner_text()
    shown = page.locator("#panel-study-0 text", has_text="×").all()
    assert len(shown) == 1 and shown[0].inner_html().endswith("chance")
    page.locator("#panel-study-0 [role=button]").first.click()
    assert page.locator("#panel-tasks text", has_text="×").count() == 2  # the task and the mean


def test_every_view_opens(page):
    assert page.locator("nav a").count() == len(VIEWS)
    for link in page.locator("nav a").all():
        link.click()
        assert page.locator("main").inner_text().count("\n") > 1
        assert "[object" not in page.locator("main").inner_text()
    page.go_back()
    assert page.locator("h2").inner_text() == "Glossary"


def test_a_mark_opens_its_mixture(page):
    page.locator("#panel-study-0 [role=button]").nth(2).click()
    assert page.locator("h2").inner_text() == "Mixture"
    assert page.locator("#choose-mixture").input_value() == "pair1"


def test_the_slider_moves_numbers_and_masks_together(page, results):
    visit(page, "mixture")
    model, mixture, method = (
        page.locator(f"#choose-{n}").input_value() for n in ("model", "mixture", "method")
    )
    fractions = tables.read(results / "tables" / "fractions.parquet")
    for key, fraction, pruned in (("Home", 0.1, 1), ("End", 0.5, 6)):
        page.locator("#fraction").focus()
        page.keyboard.press(key)
        rows = fractions.query("model == @model and mixture == @mixture and method == @method")
        expected = rows[np.isclose(rows["fraction"], fraction)]["dissociation"]
        np.testing.assert_allclose(values(page, "panel-tasks"), expected, rtol=1e-5)
        visit(page, "heads")
        assert page.locator("#panel-map-a .note").inner_text().count(f"the {pruned} heads") == 1
        visit(page, "mixture")


def test_heads_are_selected_by_keyboard_in_all_maps_and_kept_in_the_link(page, browser):
    visit(page, "heads")
    boxes = [page.locator(f"#panel-map-a [data-head='{i}']").bounding_box() for i in (0, 4, 8)]
    assert boxes[0]["y"] > boxes[1]["y"] > boxes[2]["y"]  # layers stand as in figures
    page.locator("#panel-map-a [data-head='0']").focus()
    page.keyboard.press("ArrowUp")  # the first layer is the lowest, as in figures
    page.keyboard.press("Enter")
    assert page.locator(".cell.chosen").count() == 6 and page.locator(".dot.chosen").count() == 2
    assert page.locator("#chosen").inner_text().count("Layer 1, head 0") >= 1
    assert "rank by seed" in page.locator("#hint").inner_text()
    other = browser.new_page()
    other.goto(page.url)
    assert other.locator("h2").inner_text() == "Heads"
    assert [cell.get_attribute("data-head") for cell in other.locator(".cell.chosen").all()] == ["4"] * 6
    other.close()


def test_curves_have_a_line_at_chance(page):
    visit(page, "mixture")
    lines = page.locator("[id^=panel-curve] .chance").all()
    assert [float(line.get_attribute("data-chance")) for line in lines] == [0.55] * 2


def test_a_task_has_one_colour_in_all_mixtures(browser, tmp_path):
    opened = browser.new_page()
    opened.goto(write_explorer(study(tmp_path / "results" / "small", tasks=("x", "y", "z"))).as_uri())
    looks: dict[str, set[str]] = {}
    for mixture in ("pair0", "pair1", "pair2"):
        visit(opened, "mixture")
        opened.locator("#choose-mixture").select_option(mixture)
        for mark in opened.locator("#panel-tasks [data-value]").all():
            task = mark.get_attribute("aria-label").split(",")[1].split(":")[0].strip(" \u2068\u2069")
            looks.setdefault(task, set()).add(mark.get_attribute("class").split()[1])
        for name in opened.locator("[id^=panel-curve] .name").all():
            task = name.text_content().removeprefix("top, ")
            if task in "xyz":
                looks.setdefault(task, set()).add(name.get_attribute("class").split()[1])
    opened.close()
    assert [len(looks[task]) for task in "xyz"] == [1, 1, 1]
    assert len(set.union(*looks.values())) == 4 and looks["mean"] == {"c5"}


def test_what_heads_know_is_that_of_all_labels(page, results):
    visit(page, "words")
    table = tables.read(results / "tables" / "probes.parquet").query("label.isna()")
    np.testing.assert_allclose(values(page, "panel-known"), table["selectivity"], rtol=1e-5)
    assert len(values(page, "panel-sharing")) == len(tables.read(results / "tables" / "sharing.parquet"))


def test_gains_are_read_by_keyboard_measured_and_predicted(page, results):
    visit(page, "grouping")
    table = tables.read(results / "tables" / "gains.parquet").query("method == 'tuned'")
    shown = values(page, "panel-gains")
    np.testing.assert_allclose(sorted(shown), sorted(table["difference"]), rtol=1e-5)
    cells = page.locator("#panel-gains [data-value]")
    for cell, value in zip(cells.all(), shown, strict=True):
        assert ("below" if value > 0 else "above") in cell.get_attribute("class")  # orange: gained
    assert page.locator("#panel-gains [tabindex='0']").count() == 1
    cells.first.focus()
    page.keyboard.press("ArrowRight")
    second = cells.nth(1).get_attribute("aria-label")
    assert page.locator("#hint").inner_text() == second and "corrected p" in second
    page.keyboard.press("ArrowDown")  # past the diagonal, where there is no cell
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowUp")
    assert page.locator("#hint").inner_text() != second
    page.locator("#choose-predictor").select_option("head-fisher")
    table = tables.read(results / "tables" / "gain_predictions.parquet")
    table = table.query("held_out == 1 and predictor == 'head-fisher'")
    np.testing.assert_allclose(sorted(values(page, "panel-gains")), sorted(table["predicted"]), rtol=1e-5)
    cells.first.hover()
    assert page.locator("#hint").inner_text().count("; measured ") == 1
    table = tables.read(results / "tables" / "gain_prediction_scores.parquet")
    np.testing.assert_allclose(sorted(values(page, "panel-predictors")), sorted(table["spearman"]), rtol=1e-5)
    filled = page.locator("#panel-predictors .point:not(.hollow)").count()
    assert filled == (table["p_holm"] < 0.05).sum()
    assert page.locator("#panel-predictors tbody tr").count() == len(table)


def test_kinds_of_attention_have_maps_of_their_own(browser, tmp_path):
    kinds = {"encoder": 2, "decoder": 1, "cross": 1}
    file = write_explorer(study(tmp_path / "results" / "kinds", shape=(4, 3), kinds=kinds))
    page = browser.new_page(accept_downloads=True)
    page.goto(f"file://{file}#view=heads")
    page.wait_for_selector("#panel-map-a svg")
    shown = page.locator("#panel-map-a svg text").all_text_contents()
    assert [text for text in shown if "attention" in text] == [
        "encoder self-attention", "decoder self-attention", "cross-attention"
    ]  # fmt: skip
    lines = saved_csv(page, "map-a")
    found = [(line["attention"], int(line["layer"])) for line in lines if line["head"] == "0"]
    assert found == [("encoder", 0), ("encoder", 1), ("decoder", 0), ("cross", 0)]
    page.close()


def saved_csv(page, panel: str) -> list[dict[str, str]]:
    """What a panel saves as CSV."""
    with page.expect_download() as saved:
        page.locator(f"#panel-{panel} .exports button").last.click()
    return list(csv.DictReader(io.StringIO(Path(saved.value.path()).read_text(), newline="")))


@pytest.mark.parametrize("view", VIEWS)
def test_every_panel_saves_its_picture_and_its_table(page, view):
    visit(page, view)
    names = [panel.get_attribute("id") for panel in page.locator(".panel:has(.behind)").all()]
    for place, name in enumerate(names):
        if place % 5 == 4:
            page.wait_for_timeout(1100)  # Chromium drops the eleventh without a pause of a second
        assert saved_csv(page, name.removeprefix("panel-")), name
        if page.locator(f"#{name} svg").count():
            with page.expect_download() as saved:
                page.locator(f"#{name} .exports button").first.click()
            text = Path(saved.value.path()).read_text()
            assert text.startswith("<svg")
            picture = ElementTree.fromstring(text)
            marks = page.locator(f"#{name} svg [data-head], #{name} svg [data-value]").count()
            assert (
                len(picture.findall(".//*[@data-head]")) + len(picture.findall(".//*[@data-value]")) == marks
            )
            assert "var(" not in text and "class=" not in text, name


def of_group(page, results, table: str):
    """Rows of a table that the controls choose."""
    frame = tables.read(results / "tables" / f"{table}.parquet")
    for name in ("model", "mixture", "method"):
        frame = frame[frame[name] == page.locator(f"#choose-{name}").input_value()]
    return frame


def test_differences_of_tasks_are_the_tested_ones_in_either_order(page, results):
    visit(page, "heads")
    page.locator("#choose-table").select_option("confidence")
    table = of_group(page, results, "task_differences").query("measure == 'confidence'")
    for sign in (1, -1):
        first, second = table["task"].iloc[0], table["against"].iloc[0]
        page.locator("#choose-a").select_option(first if sign > 0 else second)
        page.locator("#choose-b").select_option(second if sign > 0 else first)
        lines = saved_csv(page, "map-difference")
        shown = [float(line["confidence"]) for line in lines]
        np.testing.assert_allclose(shown, sign * table["difference"], rtol=1e-3)
        np.testing.assert_allclose([float(line["p_holm"]) for line in lines], table["p_holm"], rtol=1e-3)
        clear = np.sign(sign * table["difference"])[table["p_holm"] < 0.05]
        for kind, expected in (("plus", (clear > 0).sum()), ("minus", (clear < 0).sum())):
            drawn = page.locator(f"#panel-map-difference .sign.{kind}").get_attribute("d")
            assert expected and drawn.count("M") == expected


@pytest.mark.parametrize("measure", ["ablation_size", "relevance"])
def test_changes_by_training_are_those_of_the_tables(page, results, measure):
    """As shares of the sum over heads for a measure that grows with the loss."""
    visit(page, "heads")
    page.locator("#choose-table").select_option(measure)
    assert page.locator("#choose-before").input_value() == "frozen"
    task, mixture = (page.locator(f"#choose-{name}").input_value() for name in ("a", "mixture"))
    table = tables.read(results / "tables" / "heads.parquet")
    table = table[(table["mixture"] == mixture) & (table["task"] == task) & (table["measure"] == measure)]
    means = table.groupby(["method", "layer", "head"])["value"].mean()
    now, before = (
        means[method] / means[method].abs().sum() if measure == "ablation_size" else means[method]
        for method in ("tuned", "frozen")
    )
    shown = [float(line[measure]) for line in saved_csv(page, "change-a")]
    np.testing.assert_allclose(shown, now - before, atol=2e-4 * now.abs().max())
    page.locator("#choose-before").select_option("none")
    assert page.locator("#panel-change-a").count() == 0


def test_confidence_is_shown_with_and_without_separators(page, results):
    visit(page, "heads")
    page.locator("#choose-table").select_option("confidence_no_separator")
    task = page.locator("#choose-a").input_value()
    table = of_group(page, results, "heads")
    for measure in ("confidence_with_separator", "confidence", "confidence_no_separator"):
        rows = table[(table["measure"] == measure) & (table["task"] == task)]
        shown = page.locator(f"#panel-{measure} [data-head]").all()
        words = [float(cell.get_attribute("aria-label").rsplit(" ", 1)[1]) for cell in shown]
        np.testing.assert_allclose(words, rows.groupby(["layer", "head"])["value"].mean(), rtol=0.01)


def test_rankings_are_compared_as_in_the_tables(page, results):
    visit(page, "belief")
    belief = of_group(page, results, "belief").query("task == 'mean'").sort_values("area")
    for column in ("area", "dissociation", "ablation_spearman", "ablation_size_spearman"):
        np.testing.assert_allclose(values(page, f"panel-{column}"), belief[column].dropna(), rtol=1e-5)
    clear = page.locator("#panel-area .point:not(.hollow)").count()
    assert clear == (belief["difference_p_holm"] < 0.05).sum()
    apart = (belief["dissociation_low"] > 0) | (belief["dissociation_high"] < 0)
    clear = page.locator("#panel-dissociation .point:not(.hollow)").count()
    assert clear == ((belief["dissociation_p_holm"] < 0.05) & apart).sum()
    curves = of_group(page, results, "pruning_curves")
    for place, order in ((0, "top"), (1, "bottom")):
        of_task = curves[(curves["task"] == curves["task"].unique()[place]) & (curves["order"] == order)]
        shown = values(page, f"panel-ranked-{order}-{place}")
        np.testing.assert_allclose(sorted(shown), sorted(of_task["value"]), rtol=1e-5)
    agreement = of_group(page, results, "agreement").groupby(["measure_a", "measure_b"])
    expected = [*agreement["spearman"].mean(), *agreement["top_overlap"].mean()]
    np.testing.assert_allclose(sorted(values(page, "panel-agreement")), sorted(expected), atol=1e-6)


def test_a_change_by_training_is_filled_only_if_other_seeds_would_show_it(browser, tmp_path):
    """Of a study with ten seeds, whose p over examples alone is below 0.05 for most variants."""
    file = write_explorer(ROOT / "docs" / "studies" / "iat-minilm", tmp_path / "kept.html")
    table = tables.read(ROOT / "docs" / "studies" / "iat-minilm" / "tables" / "improvement.parquet")
    table = table[(table["task"] == "mean") & table["difference"].notna()]
    page = browser.new_page()
    page.goto(f"file://{file}#view=iat")
    page.wait_for_selector("#panel-iat svg")
    marks = page.locator("#panel-iat svg [data-value]")
    filled = [float(mark.get_attribute("data-value")) for mark in marks.all()
              if "hollow" not in mark.get_attribute("class")]  # fmt: skip
    assert marks.count() == len(table) > (table["p_holm"] < 0.05).sum() > 10
    np.testing.assert_allclose(filled, table.loc[table["p_seeds_holm"] < 0.05, "difference"], rtol=1e-3)


def test_hostile_names_are_text(page):
    visit(page, "heads")
    page.locator("#choose-mixture").select_option("pair4")
    assert page.locator("script").count() == 2 and page.locator("main b").count() == 0
    assert HOSTILE[1] in page.locator("#choose-a").inner_text() + page.locator("#choose-b").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 820, 1280])
def test_nothing_is_wider_than_the_window(browser, file, width, scheme):
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page.goto(file)
    for view in VIEWS:
        visit(page, view)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, view
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(browser, file, scheme):
    context = browser.new_context(bypass_csp=True, color_scheme=scheme)
    page = context.new_page()
    page.goto(file)
    page.add_script_tag(path=files("axe_playwright_python") / "axe.min.js")
    for view in VIEWS:
        visit(page, view)
        found = page.evaluate("axe.run()")["violations"]
        serious = [each for each in found if each["impact"] in ("serious", "critical")]
        assert not serious, [(each["id"], each["nodes"][0]["html"][:200]) for each in serious]
    context.close()


def test_a_large_study_is_small_and_quick(browser, tmp_path):
    """384 heads, seven tasks in all pairs, two seeds and the atlas: what a click draws before it is shown."""
    tasks = [f"task{i}" for i in range(7)]
    file = write_explorer(study(tmp_path / "results" / "large", tasks, (24, 16), 2))
    assert file.stat().st_size < 7e6
    page = browser.new_page()
    page.goto(file.as_uri(), timeout=300_000)
    clicked = """(id) => {
        const node = document.getElementById(id);
        node.selectedIndex = (node.selectedIndex + 1) % node.length;
        node.dispatchEvent(new Event("change"));
        return document.querySelectorAll("main *").length;
    }"""
    for where in ("mixture mixture", "heads mixture", "heads a", "heads table", "belief method"):
        view, name = where.split()
        visit(page, view)
        made = [page.evaluate(clicked, f"choose-{name}") for _ in range(3)]
        assert max(made) < 2000, (where, made)  # about 25 microseconds each
    visit(page, "heads")
    page.locator("#panel-roles .chart").wait_for()  # drawn later
    assert page.locator("main *").count() > 2000
    page.close()
