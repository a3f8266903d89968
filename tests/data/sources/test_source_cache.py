"""Records of sources: when they are valid, when they are rewritten, and that they agree with jobs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headspec.config.sections.task import Task
from headspec.data import prepare, tasks_read
from headspec.data.prepare import Source
from headspec.data.sources import source_cache
from headspec.errors import DataError
from headspec.provenance import code_hash
from support.data.labelled_texts import labelled
from support.data.sources import save
from support.paths import ROOT
from support.running import studies

KEYED = ["example", "label", "key_a", "key_b"]


@pytest.fixture(autouse=True)
def entry(here) -> Path:
    """Path of the entry of task t in study s, which reads the source x."""
    save(labelled(60), here / "x" / "train.csv")
    save(labelled(20, 100), here / "x" / "validation.csv")
    return here / ".snakemake" / "headspec" / "s" / "t.parquet"


def read(seed: int = 0, **settings: object) -> Source:
    return source_cache.read_source("s", "t", Task(**{"source": "x"} | settings), seed)


def rows(source: Source) -> list[list]:
    columns = ["key_a", "key_b", "label"]
    return [split.rows[columns].to_numpy().tolist() for split in (source.train, source.validation)]


def secretly(path: Path, old: str, new: str) -> None:
    """Change the content but not the size and date of a file."""
    before = path.stat()
    text = path.read_text()
    assert old in text and len(old) == len(new)
    path.write_text(text.replace(old, new))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_source_is_read_once(here, monkeypatch):
    first = read()
    with monkeypatch.context() as patched:
        patched.setattr(prepare, "read_source", None)
        assert rows(read()) == rows(read(train_examples=9)) == rows(read(metrics=["matthews"])) == rows(first)
    secretly(here / "x" / "train.csv", "Text 7.", "Texts 7")
    assert rows(read()) != rows(first)


def test_an_entry_has_what_the_source_has(here):
    settings = {"further": {"t-odd": "odd"}, "labels": ["z", "x", "y"]}
    save(labelled(30, 115), here / "x" / "odd.csv")
    alone = prepare.read_source("t", Task(source="x", **settings), 0)
    for source in (read(**settings), read(**settings)):
        assert rows(source) == rows(alone) and source.classes == ["z", "x", "y"]
        assert source.train.counts == alone.train.counts
        assert source.validation.counts == alone.validation.counts
        assert source.further["t-odd"].rows["key_a"].tolist() == alone.further["t-odd"].rows["key_a"].tolist()
    assert "text_a" not in read(**settings).train.rows  # from the cache


@pytest.mark.parametrize(
    "settings", [{"seed": 1}, {"text_a": "other_text"}, {"filter": {"other": 1}}, {"label": "other"}], ids=str
)
def test_other_settings_need_another_entry(here, settings):
    for split, start, n in (("train", 0, 60), ("validation", 100, 20)):
        other = [f"b {i}" for i in range(start, start + n)]
        save(labelled(n, start, other_text=other), here / "x" / f"{split}.csv")
    first = read()
    assert rows(read(**settings)) != rows(first)
    assert rows(read()) == rows(first)


def test_other_content_needs_another_entry_and_another_time_does_not(here, entry):
    path = here / "x" / "validation.csv"
    first = read()
    before = entry.stat().st_mtime_ns
    os.utime(path)
    assert rows(read()) == rows(first) and entry.stat().st_mtime_ns > before  # with the new time
    path.write_text(path.read_text().replace("Text 108.", "Text 208."))
    assert rows(read()) != rows(first)
    save(labelled(5, 300), here / "x" / "more.csv")  # a split that the task does not use
    assert "text_a" not in read().train.rows
    assert len(read(further={"t-more": "more"}).further["t-more"].rows) == 5


def test_other_code_needs_another_entry(here, tmp_path, monkeypatch):
    copy = tmp_path / "workflow"
    shutil.copytree(ROOT / "workflow", copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(code_hash, "LIBRARY", copy / "headspec")
    monkeypatch.setattr(code_hash, "_code", code_hash.Code())  # which knows no other library
    read()
    assert "text_a" not in read().train.rows  # from the cache
    for module, counts in {"heads/masks.py": False, "data/sources/columns.py": True}.items():
        path = copy / "headspec" / module
        path.write_text(path.read_text() + "\nassert __name__\n")
        assert ("text_a" in read().train.rows) == counts


def other_table(path: Path) -> None:
    """The footer of an entry with columns of another table."""
    pq.write_table(pa.table({"a": [1]}).replace_schema_metadata(pq.read_schema(path).metadata), path)


DAMAGE = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-30]),
    "garbled": lambda path: path.write_bytes(path.read_bytes()[:300] + bytes(10) + path.read_bytes()[310:]),
    "foreign": lambda path: pq.write_table(pa.table({"a": [1]}), path),
    "other table": other_table,
    "text": lambda path: path.write_bytes(b"not a table"),
    "empty": lambda path: path.write_bytes(b""),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_entry_is_rewritten(entry, damage):
    first = read()
    good = entry.read_bytes()
    damage(entry)
    assert rows(read()) == rows(first)
    assert entry.read_bytes() == good


def test_the_source_is_read_if_no_entry_can_be_written(entry):
    entry.parent.parent.mkdir(parents=True)
    entry.parent.write_text("in the way")
    assert rows(read()) == rows(prepare.read_source("t", Task(source="x"), 0))


def test_wrong_data_leaves_no_entry(entry):
    for _ in range(2):
        with pytest.raises(DataError, match=r"tasks.t.label: no column 'lable'"):
            read(label="lable")
        with pytest.raises(DataError, match=r"tasks.t.test.CoLA: no split 'tset'"):
            read(test={"CoLA": "tset"})
    assert not entry.exists()


@pytest.mark.slow
def test_concurrent_processes_agree(entry):
    code = """
from headspec.config.sections.task import Task
from headspec.data.sources import source_cache
task = Task(source="x", validation_split=None)
for i in range(20):
    n = len(source_cache.read_source("s", "t", task, i % 2).train.rows)
print(n)
"""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow")}
    command = [sys.executable, "-c", code]
    started = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    assert [process.communicate()[0] for process in started] == ["54\n"] * 3
    assert [path.name for path in entry.parent.iterdir()] == [entry.name]


def test_planning_and_jobs_make_the_same_tables(here):
    """The same examples in the same order, also of pairs, and also from the cache."""
    studies.texts(here / "texts")
    tasks = studies.CONFIG["tasks"]
    few = tasks["match"] | {"train_examples": 30, "validation_examples": 20}
    study = studies.study(tasks=tasks | {"pairs": {"pairs_of": "topic", "train_examples": 60}, "few": few})
    jobs = {name: prepare.prepare(name, task, 0) for name, task in study.tasks.items() if not task.pairs_of}
    jobs["pairs"] = prepare.prepare("pairs", study.tasks["pairs"], 0, jobs["topic"])
    for _ in range(2):
        prepared = tasks_read.prepare_tasks(study).prepared
        assert set(prepared) == set(jobs)
        for name, job in jobs.items():
            for split in ("train", "validation"):
                table, expected = getattr(prepared[name], split)[KEYED], getattr(job, split)[KEYED]
                pd.testing.assert_frame_equal(table, expected, check_dtype=False)
            assert prepared[name].counts == job.counts and prepared[name].classes == job.classes
