"""Studies that are kept under docs/studies, and the pages and figures that are made from them."""

import importlib
import sys

import pandas as pd
import pytest
import yaml

from headspec import tables
from headspec.config.study import Study
from headspec.explorer.contents import decided
from headspec.pipeline import outputs
from support.paths import ROOT

KEPT = ROOT / "docs" / "studies"
STUDIES = sorted(path.parent for path in KEPT.glob("*/config.yaml"))
sys.path.append(str(KEPT))
fill = importlib.import_module("fill")
kept = importlib.import_module("pages.kept")
PAGES = {path: path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")}


def test_pages_have_the_numbers_of_the_studies():
    blocks = [match["name"] for text in PAGES.values() for match in fill.BLOCK.finditer(text)]
    assert sorted(blocks) == sorted(fill.BLOCKS)
    for path, text in PAGES.items():
        assert text == fill.filled(text), f"{path.name}: run make docs"


def test_sentences_count_the_intervals_that_exclude_0():
    ends = pd.DataFrame({"ci_low": [0.1, -0.2, -1, -1, 0.0], "ci_high": [0.3, 0.2, -0.5, -0.1, 1]})
    assert kept.sides(ends) == "of 5 intervals 1 is above 0, 2 below"
    assert kept.sides(ends.iloc[[0, 0]]) == "of 2 intervals 2 are above 0, none below"
    assert kept.sides(ends.iloc[[1, 4]]) == "none of 2 intervals excludes 0"


@pytest.mark.parametrize("name", fill.FIGURES)
def test_figures_are_made_from_the_studies(name):
    assert fill.FIGURES[name]().axes
    assert any(name in text for text in PAGES.values()) and (ROOT / "docs" / "assets" / name).exists()


@pytest.mark.parametrize("folder", STUDIES, ids=lambda folder: folder.name)
def test_a_study_is_kept_with_its_config(folder):
    study = Study.model_validate(yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8")))
    assert study.study == folder.name
    for path in folder.rglob("*.parquet"):
        assert tables.footer(path)["study"] == study.study
        assert list(tables.read(path)) == list(outputs.schemas()[path.stem].columns), "run: make docs"
    assert sum(path.stat().st_size for path in KEPT.rglob("*") if path.is_file()) < 2e6


def test_kept_rows_without_a_p_for_other_seeds_are_not_judged_by_the_p_of_these_runs():
    belief = tables.read(KEPT / "ag-pair" / "tables" / "belief.parquet")
    belief = belief[belief["difference_p_holm"].notna()]
    assert len(belief) and belief["n_seeds"].eq(3).all()
    found = decided(belief)
    assert found["p_of"].eq("other seeds").all()
    assert (
        found["difference_p"].equals(belief["difference_p_seeds_holm"]) and found["difference_p"].isna().all()
    )


def test_no_head_of_the_translators_has_a_role():
    counts = tables.read(KEPT / "translation-heads" / "tables" / "role_counts.parquet")
    assert set(counts["role"]) == {"positional", "rare word", "syntactic"} and not counts["before"].any()
    assert "no head of these models has a [role]" in (ROOT / "docs" / "findings.md").read_text()
