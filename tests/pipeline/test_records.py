"""Records in results: written by jobs, restored for Snakemake, compared with installed versions."""

import hashlib
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from snakemake.persistence.file import FilePersistence
from torch import nn
from transformers import BertConfig, BertModel

from headspec import tables
from headspec.data import submission
from headspec.errors import HeadspecError
from headspec.models import saved
from headspec.pipeline import records
from headspec.pipeline.current import DAMAGED, FOREIGN, Results, other_versions
from headspec.plots.drawing.style import save
from headspec.provenance import hashes
from headspec.training.checkpoint import Checkpoint
from support.schemas import SCHEMAS

RESULTS = Path("results/s")


class Params(list):
    """`snakemake.params` of a script: values by position and by name."""

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
    """Run in a folder with one input file."""
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text("an input\n")
    return tmp_path


def restore(folder: Path = RESULTS) -> int:
    """The number of new records."""
    return records.restore(folder)[0]


def record_of(name: str) -> Any:
    return FilePersistence(nolock=True)._read_record(str(RESULTS / name))


def test_a_table_has_the_record_of_files_without_metadata():
    made_by = job("run/model.bin", "run/t.parquet", rule="train", inputs=("in.txt",), rate=0.1, none=None)
    table(RESULTS / "run" / "t.parquet", made_by)
    assert restore() == 2
    digest = hashlib.sha256(b"an input\n").hexdigest()
    for name in ("run/model.bin", "run/t.parquet"):
        record = record_of(name)
        assert record.rule == "train" and record.params == sorted(["'s'", "0.1", "None"])
        assert record.input == ["in.txt"] and record.input_checksums == {"in.txt": f"sha256:{digest}"}
    assert record_of("run/model.bin").job_hash == record_of("run/t.parquet").job_hash


def test_tables_of_a_job_have_separate_records():
    """One table is older if the job was killed before it rewrote the other."""
    names = ("a.parquet", "b.parquet")
    table(RESULTS / "a.parquet", job(*names, version=2))
    table(RESULTS / "b.parquet", job(*names, version=1))
    assert restore() == 2
    assert "2" in record_of("a.parquet").params and "1" in record_of("b.parquet").params


@pytest.mark.parametrize("kind", ["svg", "png", "pdf"])
def test_figures_have_their_record(kind):
    made_by = job(f"f.{kind}", tasks=["a(b)", "ä", "c<d>&"])
    save(Figure(), made_by.output, 60, tables.job_record(made_by))
    assert restore() == 1
    assert record_of(f"f.{kind}").params == sorted(["'s'", repr(["a(b)", "ä", "c<d>&"])])


def test_an_archive_has_the_record_of_its_prediction_files():
    made_by = job("sent/WNLI.tsv", "sent/submission.zip")
    columns = list(SCHEMAS["submission"].columns)
    submission.write(RESULTS / "sent", pd.DataFrame(columns=columns), {}, tables.job_record(made_by))
    assert restore() == 2
    assert record_of("sent/WNLI.tsv").params == record_of("sent/submission.zip").params == ["'s'"]


def test_a_record_stays_as_long_as_its_file():
    path = RESULTS / "t.parquet"
    table(path, job("t.parquet", version=1))
    assert restore() == 1
    os.utime(path, (1, 1))
    assert restore() == 0  # touched
    table(path, job("t.parquet", version=2))
    assert restore() == 1  # replaced by another file
    assert "2" in record_of("t.parquet").params


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("snakemake.persistence.RECORD_FORMAT_VERSION", 7),
        ("snakemake.persistence.file.FilePersistence", None),
    ],
)
def test_another_format_of_records_is_reported(monkeypatch, name, value):
    table(RESULTS / "t.parquet", job("t.parquet"))
    monkeypatch.setattr(name, value)
    with pytest.raises(HeadspecError, match="this version of Snakemake keeps records in another format"):
        restore()


def test_copied_and_foreign_files_have_to_be_made_again():
    table(RESULTS / "t.parquet", job("t.parquet"))
    shutil.copy(RESULTS / "t.parquet", RESULTS / "other.parquet")
    (RESULTS / "empty.parquet").touch()
    pd.DataFrame({"x": [1]}).to_parquet(RESULTS / "foreign.parquet")
    (RESULTS / "foreign.svg").write_text("<svg/>")
    save(Figure(), [RESULTS / "f.png"], 60)
    assert restore() == 6
    assert record_of("t.parquet").params == ["'s'"]
    assert record_of("other.parquet").params == ["'s'", "outdated: a copy of results/s/t.parquet"]
    for name in ("empty.parquet", "foreign.parquet", "foreign.svg", "f.png"):
        assert record_of(name).params == [f"outdated: {FOREIGN}"]
    assert restore() == 0


def test_a_copy_of_a_run_changes_no_record_of_the_run(folder):
    """Also of weights, which have no record in themselves; nor does a link to it, or to a folder above."""
    run = RESULTS / "runs" / "a"
    run.mkdir(parents=True)
    (run / "model.bin").write_bytes(b"weights")
    table(run / "t.parquet", job("runs/a/model.bin", "runs/a/t.parquet"))
    assert restore() == 2
    shutil.copytree(run, RESULTS / "runs" / "b")
    (RESULTS / "linked").symlink_to("runs")
    (run / "above").symlink_to(folder / RESULTS)
    assert restore() == 3
    for name in ("runs/a/t.parquet", "runs/a/model.bin"):
        assert record_of(name).params == ["'s'"]
    assert restore() == 0 and Results(RESULTS).damaged() == []


def flipped(path: Path, bit: int) -> None:
    """Flip a bit of a file, which keeps its dates."""
    times, data = path.stat(), bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def written(kind: str) -> Path:
    """A result of this kind."""
    path = RESULTS / f"f.{kind}"
    if kind == "parquet":
        table(path, job(path.name, inputs=("in.txt",)))
    elif kind == "zip":
        submission.write(
            path.parent,
            pd.DataFrame(columns=list(SCHEMAS["submission"].columns)),
            {},
            tables.job_record(job("submission.zip", "WNLI.tsv")),
        )
        path = path.with_name("submission.zip")
    else:
        figure = Figure()
        figure.subplots().plot([0, 1])
        save(figure, [path], 60, tables.job_record(job(path.name)))
    return path


@pytest.mark.parametrize("kind", ["parquet", "png", "svg", "pdf", "zip"])
def test_a_flipped_bit_anywhere_is_named_and_made_again(kind):
    path = written(kind)
    assert restore() and Results(RESULTS).damaged() == []
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for bit in rng.choice(8 * len(whole), 12, replace=False):
        flipped(path, bit)
        _, results = records.restore(RESULTS)
        assert results.damaged() == [path], bit
        assert record_of(path.name).params == [f"outdated: {DAMAGED}"]
        assert other_versions(results) is None
        path.write_bytes(whole)
        assert restore() and Results(RESULTS).damaged() == []


def test_a_result_saved_again_by_another_program_is_named():
    path = RESULTS / "runs" / "training.parquet"
    table(path, job("runs/training.parquet"))
    assert restore() == 1
    pd.read_parquet(path).to_parquet(path)
    for _ in range(2):
        assert records.restore(RESULTS)[1].damaged() == [path]


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "classifiers.json"])
def test_damaged_weights_are_named_and_their_job_runs_again(name):
    folder = RESULTS / "run" / "model"
    folder.mkdir(parents=True)
    encoder = BertModel(BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, vocab_size=9))
    saved.write(
        folder, encoder, nn.ModuleList([nn.Linear(8, 2)]), {"pooling": "first", "classes": {}}, None, None
    )
    names = [f"run/model/{each}" for each in ("model.safetensors", "config.json", "classifiers.json")]
    table(RESULTS / "run" / "t.parquet", job(*names, "run/t.parquet"))
    assert restore() == 4 and Results(RESULTS).damaged() == []
    flipped(folder / name, 300)
    n, results = records.restore(RESULTS)
    assert n == 4 and results.damaged() == [folder / name]
    assert record_of("run/t.parquet").params == sorted(["'s'", f"outdated: {folder / name}"])


def test_a_damaged_training_state_is_named_and_its_job_runs_again():
    state = RESULTS / "run" / "trunk.pt"
    Checkpoint(state, "settings", 0).save({"seconds": 1.5})
    table(RESULTS / "run" / "t.parquet", job("run/trunk.pt", "run/t.parquet"))
    assert restore() == 2 and Results(RESULTS).damaged() == []
    flipped(state, 300)
    n, results = records.restore(RESULTS)
    assert n == 2 and results.damaged() == [state]
    assert record_of("run/t.parquet").params == sorted(["'s'", f"outdated: {state}"])


def made_from(*inputs: str, name: str = "t.parquet") -> None:
    table(RESULTS / name, job(name, inputs=inputs))


@pytest.mark.parametrize("again", [True, False], ids=["planned before", "not planned before"])
def test_an_input_replaced_by_an_older_file_is_seen(again):
    """Whatever its date; and if it is put back, nothing has to be made again."""
    made_from("in.txt")
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
    table(RESULTS / "a.parquet", job("a.parquet", version=1))
    shutil.copy2(RESULTS / "a.parquet", "older.parquet")
    table(RESULTS / "a.parquet", job("a.parquet", version=2))
    made_from(str(RESULTS / "a.parquet"))
    assert restore() == 2
    shutil.copy2("older.parquet", RESULTS / "a.parquet")
    assert restore() == 2
    assert "1" in record_of("a.parquet").params
    assert record_of("t.parquet").params == ["'s'", "outdated: results/s/a.parquet"]


def test_a_file_without_metadata_that_was_replaced_is_seen():
    (RESULTS / "run").mkdir(parents=True)
    (RESULTS / "run" / "model.bin").write_bytes(b"weights")
    table(RESULTS / "run" / "t.parquet", job("run/model.bin", "run/t.parquet"))
    assert restore() == 2
    (RESULTS / "run" / "model.bin").write_bytes(b"WEIGHTS")
    assert restore() == 2
    assert "outdated: results/s/run/model.bin" in record_of("run/model.bin").params


def test_what_a_job_loaded_on_another_machine_counts_not_what_it_was_planned_with():
    """There, the job is planned anew, perhaps with other code."""
    table(RESULTS / "t.parquet", job("t.parquet", code={"headspec/x.py": "edited"}))
    assert restore() == 1
    kept = FilePersistence(nolock=True)
    record = record_of("t.parquet")
    record.params = sorted(["'s'", repr({"headspec/x.py": "planned"})])
    kept._write_record(str(RESULTS / "t.parquet"), record)
    table(RESULTS / "t.parquet", job("t.parquet", code={"headspec/x.py": "edited"}))
    assert restore() == 1
    assert any("edited" in each for each in record_of("t.parquet").params)


def test_results_of_another_study_count_as_made_here():
    made_from("in.txt", name="a.parquet")
    table(RESULTS / "t.parquet", job("t.parquet", inputs=(str(RESULTS / "a.parquet"),), rate=0.1))
    RESULTS.rename("results/renamed")
    assert restore(Path("results/renamed")) == 2
    record = FilePersistence(nolock=True)._read_record("results/renamed/t.parquet")
    assert record.params == sorted(["'renamed'", "0.1"])
    assert record.input == ["results/renamed/a.parquet"] == list(record.input_checksums)


def test_a_study_without_results():
    assert restore() == 0 and other_versions(Results(RESULTS)) is None


@pytest.mark.parametrize("name", ["large.bin", "state.pt"])
def test_snakemake_compares_large_inputs_and_training_states_by_date(monkeypatch, name):
    monkeypatch.setattr(hashes, "LARGEST", 3 if name == "large.bin" else hashes.LARGEST)
    Path(name).write_bytes(b"1.5 s")
    made_from(name)
    assert restore() == 1
    assert record_of("t.parquet").input == [name] and record_of("t.parquet").input_checksums == {}


def test_training_states_are_known_by_what_they_were_made_from():
    """They contain times, which must not change the bytes of later results."""
    records = []
    for settings, seconds in [("a", 1.5), ("a", 2.5), ("b", 1.5)]:
        Checkpoint(Path("state.pt"), settings, 0).save({"seconds": seconds})
        records.append(tables.job_record(job("t", inputs=("state.pt",))))
    assert records[0] == records[1] != records[2]


def test_a_record_depends_on_parameters_and_inputs_not_on_time():
    first = tables.job_record(job("t", inputs=("in.txt",), rate=0.1))
    Path("in.txt").touch()
    assert tables.job_record(job("t", inputs=("in.txt",), rate=0.1)) == first
    assert tables.job_record(job("t", inputs=("in.txt",), rate=0.2)) != first
    Path("in.txt").write_text("another input\n")
    assert tables.job_record(job("t", inputs=("in.txt",), rate=0.1)) != first


def test_other_versions_are_reported_with_the_number_of_tables(monkeypatch):
    for number, version in enumerate(["1.0", "1.1", "1.1"]):
        monkeypatch.setattr(tables, "versions", lambda version=version: {"torch": version, "numpy": "2.0"})
        table(RESULTS / f"runs/m/seed{number}/training.parquet", job("x"))
    monkeypatch.setattr(tables, "versions", lambda: {"torch": "1.1", "numpy": "2.0"})
    warning = other_versions(Results(RESULTS))
    assert warning and warning.startswith("1 of 3 runs and statistics in results/s")
    assert "torch 1.0 (installed: 1.1)." in warning and "numpy" not in warning
    monkeypatch.setattr(tables, "versions", lambda: {"torch": "2.0"})  # numpy is not installed
    assert "torch 1.0, 1.1 (installed: 2.0)" in str(other_versions(Results(RESULTS)))


def test_the_version_of_headspec_is_recorded_and_another_is_no_matter(monkeypatch):
    """Its code is compared by content."""
    path = RESULTS / "runs/m/seed0/training.parquet"
    with monkeypatch.context() as other:
        other.setattr(tables, "VERSION", "0.1.0")
        table(path, job("x"))
    assert tables.unverified_footer(path)["versions"] == tables.versions() | {"headspec": "0.1.0"}
    assert other_versions(Results(RESULTS)) is None
