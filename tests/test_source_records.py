"""Records of sources: when they hold, when they are made anew, and that they say what jobs find."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headspec import planned, source_records, sources, tasks
from headspec.errors import DataError
from headspec.sections import Task
from headspec.study import Study
from headspec.tasks import Source
from studies import CONFIG, ROOT, texts
from test_overlap import made, save

KEYED = ["example", "label", "key_a", "key_b"]


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    save(made(60), tmp_path / "x" / "train.csv")
    save(made(20, 100), tmp_path / "x" / "validation.csv")
    return tmp_path


@pytest.fixture
def record(here) -> Path:
    """Where the record of task t in the study s is."""
    return here / ".snakemake" / "headspec" / "s" / "t.parquet"


def read(seed: int = 0, **settings: object) -> Source:
    return source_records.source("s", "t", Task(**{"source": "x"} | settings), seed)


def rows(found: Source) -> list[list]:
    return [
        part.rows[["key_a", "key_b", "label"]].to_numpy().tolist() for part in (found.train, found.validation)
    ]


def secretly(path: Path, old: str, new: str) -> None:
    """Other content of the same size under the same time: who looks at it again sees the difference."""
    before = path.stat()
    text = path.read_text()
    assert old in text and len(old) == len(new)
    path.write_text(text.replace(old, new))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_source_is_read_once(here, record):
    first = read()
    secretly(here / "x" / "train.csv", "Text 7.", "Texts 7")
    assert rows(read()) == rows(read(train_examples=9)) == rows(read(metrics=["matthews"])) == rows(first)
    record.unlink()
    assert rows(read()) != rows(first)


def test_a_record_has_what_the_source_has(here):
    settings = {"further": {"t-odd": "odd"}, "labels": ["z", "x", "y"]}
    save(made(30, 115), here / "x" / "odd.csv")
    alone = tasks.source("t", Task(source="x", **settings), 0)
    for found in (read(**settings), read(**settings)):
        assert rows(found) == rows(alone) and found.classes == ["z", "x", "y"]
        assert found.train.counts == alone.train.counts and found.validation.counts == alone.validation.counts
        assert found.further["t-odd"].rows["key_a"].tolist() == alone.further["t-odd"].rows["key_a"].tolist()
    assert "text_a" not in read(**settings).train.rows  # out of the record


@pytest.mark.parametrize(
    "settings", [{"seed": 1}, {"text_a": "other_text"}, {"filter": {"other": 1}}, {"label": "other"}], ids=str
)
def test_other_settings_need_another_record(here, settings):
    for split, start in (("train", 0), ("validation", 100)):
        n = 60 if split == "train" else 20
        save(
            made(n, start, other_text=[f"b {i}" for i in range(start, start + n)]),
            here / "x" / f"{split}.csv",
        )
    first = read()
    assert rows(read(**settings)) != rows(first)
    assert rows(read()) == rows(first)


def test_other_content_needs_another_record_and_another_time_does_not(here, record):
    path = here / "x" / "validation.csv"
    first = read()
    before = record.stat().st_mtime_ns
    os.utime(path)
    assert rows(read()) == rows(first) and record.stat().st_mtime_ns > before  # it knows the new time
    secretly(path, "Text 107.", "Texts 107")
    assert rows(read()) == rows(first)  # and so does not read the file
    path.write_text(path.read_text().replace("Text 108.", "Text 208."))
    assert rows(read()) != rows(first)
    save(made(5, 300), here / "x" / "more.csv")  # of no split that is named
    assert "text_a" not in read().train.rows
    assert len(read(further={"t-more": "more"}).further["t-more"].rows) == 5


def test_other_code_needs_another_record(here, tmp_path, monkeypatch):
    copy = tmp_path / "workflow"
    shutil.copytree(ROOT / "workflow", copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(sources, "LIBRARY", copy / "headspec")
    read()
    known = "text_a" not in read().train.rows
    for module, counts in {"masks": False, "columns": True}.items():
        with open(copy / "headspec" / f"{module}.py", "a") as file:
            file.write("\nADDED = 1\n")
        assert ("text_a" in read().train.rows) == counts  # read from the source again
    assert known


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def garbled(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[300:310] = bytes(10)
    path.write_bytes(data)


def foreign(path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), path)


def other_table(path: Path) -> None:
    """A record's footer above columns that are none of a record's."""
    pq.write_table(pa.table({"a": [1]}).replace_schema_metadata(pq.read_schema(path).metadata), path)


def text(path: Path) -> None:
    path.write_text("no table")


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [cut, garbled, foreign, other_table, text, empty])
def test_a_record_that_is_none_is_written_again(here, record, damage):
    first = read()
    good = record.read_bytes()
    damage(record)
    assert rows(read()) == rows(first)
    assert record.read_bytes() == good


def test_where_no_record_can_be_written_the_source_is_read(here, record):
    record.parent.parent.mkdir(parents=True)
    record.parent.write_text("in the way")
    assert rows(read()) == rows(tasks.source("t", Task(source="x"), 0))


def test_wrong_data_leave_no_record(here, record):
    for _ in range(2):
        with pytest.raises(DataError, match=r"tasks.t.label: no column 'lable'"):
            read(label="lable")
        with pytest.raises(DataError, match=r"tasks.t.test.CoLA: no split 'tset'"):
            read(test={"CoLA": "tset"})
    assert not record.exists()


def test_processes_at_once_find_the_same(here, record):
    code = (
        "from headspec import source_records; from headspec.sections import Task\n"
        "for i in range(20):\n"
        "    task = Task(source='x', validation_split=None)\n"
        "    n = len(source_records.source('s', 't', task, i % 2).train.rows)\n"
        "print(n)"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow")}
    started = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert [process.communicate()[0] for process in started] == ["54\n"] * 3
    assert [path.name for path in record.parent.iterdir()] == [record.name]


def study(**tasks_: dict) -> Study:
    return Study(**CONFIG | {"tasks": CONFIG["tasks"] | tasks_})


def test_planning_finds_the_tables_that_jobs_make(tmp_path, monkeypatch):
    """Also those of pairs, also out of records: the same examples in the same order."""
    monkeypatch.chdir(tmp_path)
    texts(tmp_path / "texts")
    match = {"source": "texts/match.jsonl", "text_a": "left", "text_b": "right"}
    few = match | {"train_examples": 30, "validation_examples": 20}
    own = study(pairs={"pairs_of": "topic", "train_examples": 60}, few=few)
    jobs = {name: tasks.prepare(name, task, 0) for name, task in own.tasks.items() if not task.pairs_of}
    jobs["pairs"] = tasks.prepare("pairs", own.tasks["pairs"], 0, jobs["topic"])
    for _ in range(2):
        found = planned.check(own)
        assert set(found) == set(jobs)
        for name, job in jobs.items():
            for split in ("train", "validation"):
                mine, theirs = getattr(found[name], split)[KEYED], getattr(job, split)[KEYED]
                pd.testing.assert_frame_equal(mine, theirs, check_dtype=False)
            assert found[name].counts == job.counts and found[name].classes == job.classes


def test_files_that_cannot_be_read_are_named(here):
    """By the key, and with all else that is wrong: not as a bare error of the system."""
    Path("x/train.csv").unlink()
    Path("x/train.csv").symlink_to("gone.csv")
    with pytest.raises(DataError, match=r"^tasks.t.source: x/train.csv cannot be read \(No such file"):
        read()
    Path("x/train.csv").unlink()
    Path("x/train.csv").mkdir()
    with pytest.raises(DataError, match=r"^tasks.t.source: x/train.csv cannot be read \(Is a directory"):
        read()
