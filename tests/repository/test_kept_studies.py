"""Studies that are kept under docs/studies, and the pages and figures that are made from them."""

import contextlib
import importlib
import re
import sys
from types import SimpleNamespace

import pytest
import yaml

from headspec import tables
from headspec.config.study import Study
from headspec.explorer.views import decided
from headspec.pipeline import outputs
from support.paths import ROOT

KEPT = ROOT / "docs" / "studies"
STUDIES = sorted(path.parent for path in KEPT.glob("*/config.yaml"))
sys.path.append(str(KEPT))
fill, kept = importlib.import_module("fill"), importlib.import_module("pages.kept")
PAGES = {path: path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")}


def test_pages_have_the_numbers_of_the_studies():
    blocks = [match["name"] for text in PAGES.values() for match in fill.BLOCK.finditer(text)]
    assert sorted(blocks) == sorted(fill.BLOCKS)
    for path, text in PAGES.items():
        assert text == fill.filled(text), f"{path.name}: run make docs"


@pytest.mark.parametrize("name", fill.FIGURES)
def test_figures_are_made_from_the_studies(name):
    assert fill.FIGURES[name]().axes
    assert any(name in text for text in PAGES.values()) and (ROOT / "docs" / "assets" / name).exists()


@pytest.mark.parametrize("folder", STUDIES, ids=lambda folder: folder.name)
def test_a_study_is_kept_with_its_config(folder):
    study = Study.model_validate(yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8")))
    assert study.study == folder.name
    schemas = outputs.schemas()
    for path in folder.rglob("*.parquet"):
        assert tables.footer(path)["study"] == study.study
        assert list(tables.read(path)) == list(schemas[path.stem].columns), "run: make docs"
    assert sum(path.stat().st_size for path in KEPT.rglob("*") if path.is_file()) < 2e6


@pytest.mark.parametrize(("name", "p"), [("combined", "p"), ("belief", "difference_p")])
def test_rows_that_were_kept_before_their_p_for_other_seeds_are_judged_by_the_p_of_these_runs(name, p):
    kept = tables.read(KEPT / "ag-pair" / "tables" / f"{name}.parquet")
    kept = kept[kept[f"{p}_holm"].notna()]
    assert kept["n_seeds"].eq(3).all() and kept[f"{p}_seeds_holm"].isna().all()
    old, new = decided(kept), decided(kept.assign(**{f"{p}_seeds_holm": 0.5}))
    assert old["p_of"].eq("these runs").all() and old[p].equals(old[f"{p}_holm"])
    assert new["p_of"].eq("other seeds").all() and new[p].eq(0.5).all()


def marked(text: str) -> list[str]:
    """Names of what the sentences of a page rest on."""
    return [name for match in fill.MARK.finditer(text) for name in match["names"].split(", ")]


@pytest.mark.parametrize("name", fill.CLAIMS)
def test_rows_bear_out_what_sentences_say(name):
    assert fill.CLAIMS[name](), "the tables no longer say so: mend the sentence and its claim"


#: columns that say which rows they are
KEYS = ("fraction", "penalty", "delta", "alpha")


def altered(value):
    """Return a reader of tables with other numbers, by `value`, the other flags, and no case."""

    def read(path):
        frame = tables.read(path)
        numbers = [c for c in frame.select_dtypes("float") if c not in KEYS]
        flags = {c: ~frame[c] for c in frame.select_dtypes("bool")}
        return frame.assign(**{c: value(frame[c]) for c in numbers}, **flags).replace(
            {"case": r".+"}, "none", regex=True
        )

    return read


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", fill.CLAIMS)
def test_other_rows_would_not_bear_out_a_sentence(name, monkeypatch):
    """It fails if all numbers have the other sign, or are larger."""
    found = []
    for value in (lambda x: -x, lambda x: x + 10):
        monkeypatch.setattr(kept, "tables", SimpleNamespace(read=altered(value)))
        with contextlib.suppress(AssertionError, ValueError):
            found.append(bool(fill.CLAIMS[name]()))
    assert found != [True, True]


def test_every_finding_rests_on_rows():
    """Findings are the items in bold beside numbers of studies; other sentences may have marks, too."""
    texts = [*PAGES.values(), (ROOT / "README.md").read_text(encoding="utf-8")]
    assert {name for text in texts for name in marked(text)} == set(fill.CLAIMS)
    for path, text in PAGES.items():
        sections = [each for each in text.split("\n## ") if fill.BLOCK.search(each)]
        findings = [line for each in sections for line in each.splitlines() if re.match(r"(- )?\*\*", line)]
        assert [line for line in findings if not marked(line)] == [], path.name
        assert text.count("<!-- rests on") == len(fill.MARK.findall(text)), path.name
