"""The explorer in Chromium: what it shows, what it does, and that it asks for nothing."""

import csv
import io
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from headspec import tables
from headspec.explorer.finished import of_results
from support.explored import HOSTILE, study

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")
QUIET = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
QUIET += "--disable-component-update --disable-sync"


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
    return of_results(results).as_uri()


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


def test_every_view_opens(page):
    assert page.locator("nav a").count() == 10
    for link in page.locator("nav a").all():
        link.click()
        assert page.locator("main").inner_text().count("\n") > 1
        assert "[object" not in page.locator("main").inner_text()


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
    page.locator("#panel-map-a [data-head='0']").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.locator(".cell.chosen").count() == 3
    assert page.locator("#chosen").inner_text().count("Layer 1, head 0") >= 1
    assert "rank by seed" in page.locator("#hint").inner_text()
    other = browser.new_page()
    other.goto(page.url)
    assert other.locator("h2").inner_text() == "Heads"
    assert [cell.get_attribute("data-head") for cell in other.locator(".cell.chosen").all()] == ["4"] * 3
    other.close()


def test_what_heads_know_is_that_of_all_labels(page, results):
    visit(page, "words")
    table = tables.read(results / "tables" / "probes.parquet").query("label.isna()")
    np.testing.assert_allclose(values(page, "panel-known"), table["selectivity"], rtol=1e-5)
    assert len(values(page, "panel-sharing")) == len(tables.read(results / "tables" / "sharing.parquet"))


def test_back_returns_to_the_view_before(page):
    visit(page, "glossary")
    page.go_back()
    assert page.locator("h2").inner_text() == "Study"


def test_exports_are_a_picture_and_its_table(page, results):
    with page.expect_download() as saved:
        page.locator("#panel-study-0 .exports button").nth(1).click()
    lines = list(csv.DictReader(io.StringIO(Path(saved.value.path()).read_text(), newline="")))
    table = tables.read(results / "tables" / "combined.parquet").query("task == 'mean'")
    np.testing.assert_allclose(
        [float(row["dissociation"]) for row in lines], table["dissociation"], rtol=1e-5
    )
    with page.expect_download() as saved:
        page.locator("#panel-study-0 .exports button").nth(0).click()
    picture = Path(saved.value.path()).read_text()
    assert picture.startswith("<svg") and "var(" not in picture and picture.count("data-value") == len(table)


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
    for view in ("study", "mixture", "heads", "provenance"):
        visit(page, view)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, view
    page.close()


@pytest.mark.skipif("AXE" not in os.environ, reason="AXE does not name axe.min.js of axe-core")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(browser, file, scheme):
    context = browser.new_context(bypass_csp=True, color_scheme=scheme)
    page = context.new_page()
    page.goto(file)
    page.add_script_tag(path=os.environ["AXE"])
    for view in (
        "study",
        "mixture",
        "heads",
        "belief",
        "similarity",
        "iat",
        "gates",
        "words",
        "glossary",
        "provenance",
    ):
        visit(page, view)
        found = page.evaluate("axe.run()")["violations"]
        serious = [each for each in found if each["impact"] in ("serious", "critical")]
        assert not serious, [(each["id"], each["nodes"][0]["html"][:200]) for each in serious]
    context.close()
