"""Snakemake on a study whose mixtures are single tasks: nothing can dissociate, and all else is made."""

from __future__ import annotations

import pytest

from headspec import tables
from headspec.statistics.chance import warnings
from support.running import every_stage
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


def test_the_log_of_an_evaluation_says_what_was_not_learnt(tmp_path):
    """Of the task and of its further split, by a model that is hardly trained."""
    folder = every_stage.new(tmp_path / "study")
    folder.set("training", every_stage.STUDY["training"] | {"learning_rate": 1e-9})
    run = "runs/bert/tone/single/seed0"
    folder.snakemake(f"results/tiny/{run}/evaluation.parquet")
    log = (folder.results / "logs" / run / "evaluate.log").read_text()
    evaluation = tables.read(folder.results / run / "evaluation.parquet")
    tone, more = warnings(evaluation, dict.fromkeys(("tone", "more"), ["accuracy"]))
    assert log.count(tone) == log.count(more) == 1
