"""Records in results: written by jobs, given back to Snakemake, compared with what is installed."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure
from snakemake.persistence.file import FilePersistence

from headspec import records, submission, tables
from headspec.errors import HeadspecError
from headspec.plots import save
from schemas import SCHEMAS

RESULTS = Path("results/s")


class Params(list):
    """As a script has them: values by position and by name."""

    def __init__(self, **values: Any) -> None:
        super().__init__(values.values())
        self.__dict__ |= values


def job(*outputs: str, rule: str = "r", inputs: tuple[str, ...] = (), **params: Any) -> Any:
    return SimpleNamespace(
        rule=rule, params=Params(study="s", **params), input=list(inputs),
        output=[str(RESULTS / name) for name in outputs],
    )  # fmt: skip


def table(path: Path, made_by: Any) -> None:
    frame = pd.DataFrame({"draw": [0], "place": [0], "example": [3]})
    tables.write(path, SCHEMAS["draws"], frame, tables.provenance(made_by))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """A folder of its own to work in."""
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text("an input\n")
    return tmp_path


def known(name: str) -> Any:
    return FilePersistence(nolock=True)._read_record(str(RESULTS / name))


def test_a_table_stands_for_itself_and_for_files_without_room_for_a_record():
    made_by = job("run/model.bin", "run/t.parquet", rule="train", inputs=("in.txt",), rate=0.1, none=None)
    table(RESULTS / "run" / "t.parquet", made_by)
    assert records.restore(RESULTS) == 2
    digest = hashlib.sha256(b"an input\n").hexdigest()
    for name in ("run/model.bin", "run/t.parquet"):
        found = known(name)
        assert found.rule == "train" and found.params == sorted(["'s'", "0.1", "None"])
        assert found.input == ["in.txt"] and found.input_checksums == {"in.txt": f"sha256:{digest}"}
    assert known("run/model.bin").job_hash == known("run/t.parquet").job_hash


def test_each_of_a_job_s_tables_stands_for_itself():
    """One may be older, of a job that was killed before it wrote the other anew."""
    names = ("a.parquet", "b.parquet")
    table(RESULTS / "a.parquet", job(*names, version=2))
    table(RESULTS / "b.parquet", job(*names, version=1))
    assert records.restore(RESULTS) == 2
    assert "2" in known("a.parquet").params and "1" in known("b.parquet").params


@pytest.mark.parametrize("kind", ["svg", "png", "pdf"])
def test_figures_hold_their_record(kind):
    made_by = job(f"f.{kind}", tasks=["a(b)", "ä", "c<d>&"])
    save(Figure(), made_by.output, 60, tables.record(made_by))
    assert records.restore(RESULTS) == 1
    assert known(f"f.{kind}").params == sorted(["'s'", repr(["a(b)", "ä", "c<d>&"])])


def test_an_archive_stands_for_the_prediction_files_in_it():
    made_by = job("sent/WNLI.tsv", "sent/submission.zip")
    columns = list(SCHEMAS["submission"].columns)
    submission.write(RESULTS / "sent", pd.DataFrame(columns=columns), {}, tables.record(made_by))
    assert records.restore(RESULTS) == 2
    assert known("sent/WNLI.tsv").params == known("sent/submission.zip").params == ["'s'"]


def test_a_record_stays_as_long_as_its_file():
    path = RESULTS / "t.parquet"
    table(path, job("t.parquet", version=1))
    assert records.restore(RESULTS) == 1
    os.utime(path, (1, 1))
    assert records.restore(RESULTS) == 0  # touched
    table(path, job("t.parquet", version=2))
    assert records.restore(RESULTS) == 1  # another file in its place
    assert "2" in known("t.parquet").params


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("snakemake.persistence.RECORD_FORMAT_VERSION", 7),
        ("snakemake.persistence.file.FilePersistence", None),
    ],
)
def test_another_way_of_keeping_records_is_said(monkeypatch, name, value):
    table(RESULTS / "t.parquet", job("t.parquet"))
    monkeypatch.setattr(name, value)
    with pytest.raises(HeadspecError, match="this Snakemake keeps its records in another way"):
        records.restore(RESULTS)


def test_what_was_made_elsewhere_or_says_nothing_has_no_record():
    table(RESULTS / "t.parquet", job("t.parquet"))
    shutil.copy(RESULTS / "t.parquet", RESULTS / "other.parquet")
    (RESULTS / "empty.parquet").touch()
    pd.DataFrame({"x": [1]}).to_parquet(RESULTS / "foreign.parquet")
    (RESULTS / "foreign.svg").write_text("<svg>headspec:no-record:</svg>")
    save(Figure(), [RESULTS / "f.png"], 60)
    assert records.restore(RESULTS) == 1
    assert known("t.parquet") and not known("other.parquet")


def test_of_a_study_without_results_there_is_nothing_to_say():
    assert records.restore(RESULTS) == 0 and records.outdated(RESULTS) is None


def test_large_inputs_are_known_by_name_alone(monkeypatch):
    monkeypatch.setattr(tables, "LARGEST", 3)
    assert tables.record(job("t", inputs=("in.txt",)))["input"] == {"in.txt": None}


def test_states_of_training_are_known_by_name_alone():
    """They hold times, which may not show in the bytes of what is made from them."""
    Path("state.pt").write_bytes(b"1.5 s")
    assert tables.record(job("t", inputs=("state.pt",)))["input"] == {"state.pt": None}


def test_a_record_depends_on_parameters_and_inputs_and_not_on_the_time():
    first = tables.record(job("t", inputs=("in.txt",), rate=0.1))
    Path("in.txt").touch()
    assert tables.record(job("t", inputs=("in.txt",), rate=0.1)) == first
    assert tables.record(job("t", inputs=("in.txt",), rate=0.2)) != first
    Path("in.txt").write_text("another input\n")
    assert tables.record(job("t", inputs=("in.txt",), rate=0.1)) != first


def test_versions_that_differ_are_told_with_how_many_tables(monkeypatch):
    for number, version in enumerate(["1.0", "1.1", "1.1"]):
        monkeypatch.setattr(tables, "versions", lambda version=version: {"torch": version, "numpy": "2.0"})
        table(RESULTS / f"runs/m/seed{number}/training.parquet", job("x"))
    monkeypatch.setattr(tables, "versions", lambda: {"torch": "1.1", "numpy": "2.0"})
    told = records.outdated(RESULTS)
    assert told and told.startswith("1 of 3 runs and statistics in results/s")
    assert "torch 1.0 (installed: 1.1)." in told and "numpy" not in told
    monkeypatch.setattr(tables, "versions", lambda: {"torch": "2.0"})  # others are in no other environment
    assert "torch 1.0, 1.1 (installed: 2.0)" in str(records.outdated(RESULTS))
