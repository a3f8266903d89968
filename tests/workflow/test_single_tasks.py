"""Snakemake on a study whose mixtures are single tasks: nothing can dissociate, and all else is made."""

from __future__ import annotations

import pytest

from headspec import tables
from support.running.studies import Folder

pytestmark = pytest.mark.slow


def test_a_study_of_single_tasks_ends_with_its_importance(tmp_path):
    folder = Folder.new(tmp_path / "study")
    folder.set("mixtures", {"single": ["tone", "topic"]})
    folder.set("methods", ["tuned"])
    folder.snakemake("all", "explorer")
    assert {path.stem for path in (folder.results / "figures").iterdir()} == {"reliability"}
    assert tables.read(folder.results / "tables/combined.parquet").empty
    assert set(tables.read(folder.results / "tables/reliability.parquet")["task"]) == {"tone", "topic"}
    assert (folder.results / "explorer.html").exists()
    assert not folder.plan().rules
