"""Records in results: written by jobs, restored for Snakemake, compared with installed versions."""

import hashlib
import itertools
import os
import shutil
import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure
from snakemake.iocontainers import Params
from snakemake.persistence import MetadataRecord
from snakemake.persistence.file import FilePersistence
from torch import nn
from transformers import BertConfig, BertModel

from headspec import tables
from headspec.data import submission
from headspec.errors import HeadspecError
from headspec.models import saved
from headspec.pipeline import current
from headspec.pipeline.current import DAMAGED, FOREIGN, Results, other_versions
from headspec.plots.drawing.style import save
from headspec.provenance import files, hashes
from headspec.training.checkpoint import Checkpoint
from support.schemas import SCHEMAS

RESULTS = Path("results/s")


def job(*outputs: str, rule: str = "r", inputs: tuple[str, ...] = (), **params: Any) -> Any:
    return SimpleNamespace(
        rule=rule, params=Params(fromdict={"study": "s"} | params), input=list(inputs),
        output=[str(RESULTS / name) for name in outputs],
    )  # fmt: skip


def make(name: str, *others: str, **made_by: Any) -> Path:
    """Write a table as the output of a job, which has more outputs."""
    frame = pd.DataFrame({"draw": [0], "place": [0], "example": [3]})
    tables.write(RESULTS / name, SCHEMAS["draws"], frame, tables.provenance(job(name, *others, **made_by)))
    return RESULTS / name


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """Run in a folder with one input file."""
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text("an input\n")
    return tmp_path


def restore(folder: Path = RESULTS) -> int:
    """The number of new records."""
    return current.restore(folder)[0]


def record_of(name: str, folder: Path = RESULTS) -> Any:
    return FilePersistence(nolock=True)._read_record(str(folder / name))


def damaged() -> list[Path]:
    return Results(RESULTS).damaged()


def flip(path: Path, bit: int) -> None:
    """Flip a bit of a file, which keeps its dates."""
    times, data = path.stat(), bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_a_table_has_the_record_of_files_without_metadata():
    make("run/t.parquet", "run/model.bin", rule="train", inputs=("in.txt",), rate=0.1, none=None)
    assert restore() == 2
    digest = hashlib.sha256(b"an input\n").hexdigest()
    for name in ("run/model.bin", "run/t.parquet"):
        record = record_of(name)
        assert record.rule == "train" and record.params == sorted(["'s'", "0.1", "None"])
        assert record.input == ["in.txt"] and record.input_checksums == {"in.txt": f"sha256:{digest}"}
    assert record_of("run/model.bin").job_hash == record_of("run/t.parquet").job_hash


def test_tables_of_a_job_have_separate_records():
    """One table is older if the job was killed before it rewrote the other."""
    make("a.parquet", "b.parquet", version=2)
    make("b.parquet", "a.parquet", version=1)
    assert restore() == 2
    assert "2" in record_of("a.parquet").params and "1" in record_of("b.parquet").params


NAMES = ["a(b)", "ä", "c<d>&"]


def model(folder: Path, made_by: Any = None) -> None:
    encoder = BertModel(BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, vocab_size=9))
    content = {"pooling": "first", "classes": {}}
    saved.write(folder, encoder, nn.ModuleList([nn.Linear(8, 2)]), content, None, None, made_by)


def written(kind: str) -> list[Path]:
    """A result of this kind, and files that share its record."""
    made_by = job(f"f.{kind}", tasks=NAMES)
    if kind == "parquet":
        return [make("f.parquet", tasks=NAMES)]
    if kind == "zip":
        made_by = job("submission.zip", "WNLI.tsv", tasks=NAMES)
        nothing = pd.DataFrame(columns=list(SCHEMAS["submission"].columns))
        submission.write(RESULTS, nothing, {}, tables.job_record(made_by))
    elif kind == "pt":
        made_by = job("state.pt", tasks=NAMES)
        record = tables.record_text(tables.job_record(made_by))
        Checkpoint(RESULTS / "state.pt", "settings", 0, record).save({"weights": [0.5] * 40})
    elif kind == "json":
        made_by = job("model/classifiers.json", tasks=NAMES)
        model(RESULTS / "model", made_by)
    else:
        figure = Figure()
        figure.subplots().plot([0, 1])
        save(figure, made_by.output, 60, tables.job_record(made_by))
    return [Path(path) for path in made_by.output]


@pytest.mark.parametrize("kind", ["parquet", "png", "svg", "pdf", "zip", "pt", "json"])
def test_results_of_every_kind_have_their_record_and_show_a_flipped_bit_anywhere(kind):
    paths = written(kind)
    assert restore() == len(paths) and damaged() == []
    names = [str(path.relative_to(RESULTS)) for path in paths]
    for name in names:
        assert record_of(name).params == sorted(["'s'", repr(NAMES)])
    whole = paths[0].read_bytes()
    for bit in np.random.default_rng(0).choice(8 * len(whole), 12, replace=False):
        flip(paths[0], bit)
        _, results = current.restore(RESULTS)
        assert results.damaged() == paths[:1], bit
        assert record_of(names[0]).params == [f"outdated: {DAMAGED}"]
        assert other_versions(results) is None
        paths[0].write_bytes(whole)
        assert restore() and damaged() == []


WITHOUT_RECORD = "model.safetensors", "config.json", "other.bin"


@pytest.mark.parametrize("name", WITHOUT_RECORD)
def test_a_damaged_file_without_a_record_is_named_and_its_job_runs_again(name):
    folder = RESULTS / "run" / "model"
    folder.mkdir(parents=True)
    (folder / "other.bin").write_bytes(b"weights " * 10)
    outputs = [f"run/model/{each}" for each in (*WITHOUT_RECORD, "classifiers.json")]
    model(folder, job("run/t.parquet", *outputs))
    make("run/t.parquet", *outputs)
    assert restore() == 8 and damaged() == []  # the others belong to both
    flip(folder / name, 300)
    n, results = current.restore(RESULTS)
    assert n == 8 and results.damaged() == [folder / name]
    for each in ("t.parquet", "model/classifiers.json", f"model/{name}"):
        assert record_of(f"run/{each}").params == sorted(["'s'", f"outdated: {folder / name}"])


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def filled(path: Path) -> None:
    path.mkdir()
    (path / "x").touch()


#: what can have the name of a file, and keeps who opens it waiting, or has no end
OTHERS: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo, "socket": listening, "folder": Path.mkdir, "filled folder": filled,
    "device": lambda path: path.symlink_to("/dev/zero"),
}  # fmt: skip


def test_what_is_in_the_place_of_a_file_is_told_and_the_file_made_again():
    RESULTS.mkdir(parents=True)
    (RESULTS / "m.bin").write_bytes(b"weights")
    make("t.parquet", "m.bin")
    make("other.parquet")
    restore()
    assert damaged() == []
    for name, other in itertools.product(["t.parquet", "m.bin"], OTHERS.values()):
        path, kept = RESULTS / name, RESULTS / "kept"
        path.rename(kept)
        other(path)
        _, results = current.restore(RESULTS)
        assert results.damaged() == [path]
        assert any(param.startswith("outdated: ") for param in record_of(name).params)
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        kept.rename(path)
        assert restore() and damaged() == []


def test_files_of_a_job_that_ended_after_its_workflow_are_complete():
    """Unless some of them are missing or damaged, or it was another job."""
    (RESULTS / "run").mkdir(parents=True)
    (RESULTS / "run" / "m.bin").write_bytes(b"weights")
    first, second = ("run/t.parquet", "run/m.bin"), ("a.parquet", "b.parquet")
    make(*first)
    make(*second)
    snakemake = FilePersistence(nolock=True)
    names = [str(RESULTS / name) for name in (*first, *second)]
    for name in names:
        snakemake._mark_incomplete(name, None)

    def marked() -> set[str]:
        return FilePersistence(nolock=True)._filter_incomplete_keys(names)

    (RESULTS / "run" / "m.bin").write_bytes(b"half")
    restore()
    assert marked() == {*names}
    (RESULTS / "run" / "m.bin").write_bytes(b"weights")
    restore()
    assert marked() == {*names[2:]}
    make("b.parquet", "a.parquet")
    flip(RESULTS / "b.parquet", 99)
    restore()
    assert marked() == {*names[2:]}
    flip(RESULTS / "b.parquet", 99)
    restore()
    assert marked() == set()


def test_a_record_stays_as_long_as_its_file():
    """A job on another machine is planned again, perhaps with other code: what it loaded counts."""
    path = make("t.parquet", code="first")
    assert restore() == 1
    os.utime(path, (1, 1))
    assert restore() == 0  # touched
    make("t.parquet", code="second")
    assert restore() == 1  # replaced by another file
    record = record_of("t.parquet")
    assert record.params == ["'s'", "'second'"]
    record.params = ["'planned'", "'s'"]
    FilePersistence(nolock=True)._write_record(str(path), record)
    make("t.parquet", code="second")
    assert restore() == 1
    assert record_of("t.parquet").params == ["'s'", "'second'"]


@pytest.mark.parametrize(("name", "value"), [("RECORD_FORMAT_VERSION", 7), ("file.FilePersistence", None)])
def test_another_format_of_records_is_reported(monkeypatch, name, value):
    make("t.parquet")
    monkeypatch.setattr(f"snakemake.persistence.{name}", value)
    with pytest.raises(HeadspecError, match="this version of Snakemake keeps records in another format"):
        restore()


def test_copied_and_foreign_files_have_to_be_made_again(monkeypatch):
    """A result that another program saved again is damaged."""
    monkeypatch.setattr(hashes, "RECENT", 0)
    path = make("t.parquet")
    shutil.copy(path, RESULTS / "other.parquet")
    (RESULTS / "empty.parquet").touch()
    pd.DataFrame({"x": [1]}).to_parquet(RESULTS / "foreign.parquet")
    (RESULTS / "foreign.svg").write_text("<svg/>")
    save(Figure(), [RESULTS / "f.png"], 60)
    assert restore() == 6
    assert record_of("t.parquet").params == ["'s'"]
    assert record_of("other.parquet").params == ["'s'", "outdated: a copy of results/s/t.parquet"]
    for name in ("empty.parquet", "foreign.parquet", "foreign.svg", "f.png"):
        assert record_of(name).params == [f"outdated: {FOREIGN}"]
    assert restore() == 0 and damaged() == []
    pd.read_parquet(path).to_parquet(path)
    for _ in range(2):
        assert current.restore(RESULTS)[1].damaged() == [path]


def test_a_copy_of_a_run_changes_no_record_of_the_run(folder):
    """Also of weights, which have no record in themselves; nor does a link to it, or to a folder above."""
    run = RESULTS / "runs" / "a"
    run.mkdir(parents=True)
    (run / "model.bin").write_bytes(b"weights")
    make("runs/a/t.parquet", "runs/a/model.bin")
    assert restore() == 2
    shutil.copytree(run, RESULTS / "runs" / "b")
    (RESULTS / "linked").symlink_to("runs")
    (run / "above").symlink_to(folder / RESULTS)
    assert restore() == 3
    for name in ("runs/a/t.parquet", "runs/a/model.bin"):
        assert record_of(name).params == ["'s'"]
    assert restore() == 0 and damaged() == []


@pytest.mark.parametrize("again", [True, False], ids=["planned before", "not planned before"])
def test_an_input_replaced_by_an_older_file_is_seen(again):
    """Whatever its date; and if it is put back, nothing has to be made again."""
    make("t.parquet", inputs=("in.txt",))
    if again:
        assert restore() == 1
    times = os.stat("in.txt")
    Path("in.txt").write_text("another!\n")
    os.utime("in.txt", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert restore() == 1 and restore() == 0
    assert record_of("t.parquet").params == ["'s'", "outdated: in.txt"]
    Path("in.txt").write_text("an input\n")
    assert restore() == 1
    assert record_of("t.parquet").params == ["'s'"]


def test_a_result_replaced_by_an_older_one_is_seen_by_what_was_made_from_it():
    path = make("a.parquet", version=1)
    shutil.copy2(path, "older.parquet")
    make("a.parquet", version=2)
    make("t.parquet", inputs=(str(path),))
    assert restore() == 2
    shutil.copy2("older.parquet", path)
    assert restore() == 2
    assert "1" in record_of("a.parquet").params
    assert record_of("t.parquet").params == ["'s'", f"outdated: {path}"]


def test_results_of_another_study_count_as_made_here():
    make("t.parquet", inputs=(str(make("a.parquet")),), rate=0.1)
    renamed = RESULTS.rename("results/renamed")
    assert restore(renamed) == 2
    record = record_of("t.parquet", renamed)
    assert record.params == sorted(["'renamed'", "0.1"])
    assert record.input == ["results/renamed/a.parquet"] == list(record.input_checksums)


def end(path: Path, began: float) -> None:
    """Treat an output as Snakemake does when its job has ended."""
    path.touch()
    times = {"starttime": began, "endtime": path.stat().st_mtime}
    record = MetadataRecord(rule="r", record_format_version=current.FORMAT, **times)
    FilePersistence(nolock=True)._write_record(str(path), record)


def test_a_file_in_the_inode_of_the_one_before_is_read():
    """A job's output can have the inode, and the size, of the file that the job replaced."""
    table, path = make("t.parquet", inputs=("in.txt",)), Path("in.txt")
    time.sleep(hashes.RECENT)
    assert restore() == 1 and not Results(RESULTS).problem(table)
    time.sleep(hashes.RECENT)
    began = time.time()
    path.write_text("no input\n")
    end(path, began)
    hashes.SHA256.clear()
    assert restore() == 1 and Results(RESULTS).problem(table) == "in.txt"


def test_large_files_are_known_by_their_bytes_and_read_once(monkeypatch):
    """By the job that makes or reads them, not by the next start, until they are touched."""
    monkeypatch.setattr(hashes, "LARGE", 3)
    began = time.time()
    read, digests = [], files.digests
    monkeypatch.setattr(files, "digests", lambda path: read.append(str(path)) or digests(path))
    Path("large.bin").write_bytes(b"1.5 s")
    path = make("t.parquet", inputs=("large.bin",))
    hashes.keep(["large.bin", str(path)])
    end(path, began)
    hashes.SHA256.clear()
    read.clear()
    assert restore() == 1 and read == []
    digest = f"sha256:{hashlib.sha256(b'1.5 s').hexdigest()}"
    assert record_of("t.parquet").input_checksums == {"large.bin": digest}
    flip(path, 300)
    assert restore() == 1 and set(read) == {str(path)} and damaged() == [path]
    flip(path, 300)
    Path("large.bin").touch()
    assert restore() == 1 and set(read) == {"large.bin", str(path)}


def test_a_record_depends_on_parameters_and_inputs():
    """Equal states have equal bytes, whichever of their strings are one object."""

    def record(settings: str = "a", task: str = "x", text: str = "an input\n", rate: float = 0.1) -> dict:
        history = [(0, task), (1, "".join(task))]
        Checkpoint(Path("state.pt"), settings, 0).save({"history": history, "x": torch.ones(2)})
        Path("in.txt").write_text(text)
        return tables.job_record(job("t", inputs=("in.txt", "state.pt"), rate=rate))

    first = record(task="topic of")
    assert record(task=" ".join(["topic", "of"])) == first
    others = {"settings": "b"}, {"text": "another input\n"}, {"rate": 0.2}, {"task": "topics"}
    assert all(record(**{"task": "topic of"} | other) != first for other in others)


def test_other_versions_of_packages_are_reported_with_the_number_of_tables(monkeypatch):
    """Without results there is nothing to say; headspec's own version is no matter: code is compared."""
    assert restore() == 0 and other_versions(Results(RESULTS)) is None
    monkeypatch.setattr(tables, "__version__", "0.1.0")
    for number, version in enumerate(["1.0", "1.1", "1.1"]):
        monkeypatch.setattr(tables, "versions", lambda version=version: {"torch": version, "numpy": "2.0"})
        path = make(f"runs/m/seed{number}/training.parquet")
    assert tables.unverified_footer(path)["versions"] == {
        "headspec": "0.1.0", "torch": "1.1", "numpy": "2.0",
    }  # fmt: skip
    warning = other_versions(Results(RESULTS))
    assert warning and warning.startswith("1 of 3 runs and statistics in results/s")
    assert "torch 1.0 (installed: 1.1)." in warning and "numpy" not in warning
    monkeypatch.setattr(tables, "versions", lambda: {"torch": "2.0"})  # numpy is not installed
    assert "torch 1.0, 1.1 (installed: 2.0)" in str(other_versions(Results(RESULTS)))
