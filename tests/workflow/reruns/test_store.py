"""Snakemake with a store: runs that studies share are trained once, with the same results as without."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from headspec import tables
from headspec.models.multitask import MultiTask
from support.running.faults import TIMES
from support.running.studies import CONFIG, Folder

pytestmark = pytest.mark.slow

RUNS = [
    f"bert/{run}/seed0"
    for run in ("tone+topic/tuned", "tone+topic/frozen", "tone+topic/lora", "match/single")
]
IAT = "bert/tone+topic/iat/seed0"  # which continues the state that the tuned run has kept
STUDY = CONFIG | {
    "seeds": [0],
    "methods": ["tuned", "frozen", "lora", "iat"],
    "training": CONFIG["training"] | {"epochs": 2, "frozen": {"epochs": 1}, "lora": {"rank": 4}},
    "iat": {"mixtures": ["tone+topic"]},
}


def make(folder: Folder, name: str, *runs: str, store: str = "store", **settings: object) -> None:
    """Train runs of the study `name`."""
    folder.write(STUDY | {"study": name} | settings)
    folder.snakemake(*targets(name, *runs), HEADSPEC_STORE=store)


def targets(name: str, *runs: str) -> list[str]:
    return [f"results/{name}/runs/{run}/training.parquet" for run in runs or (*RUNS, IAT)]


@pytest.fixture(scope="module")
def made(shared) -> Folder:
    """Studies `first` and `second` with a store, and `alone` without one."""

    def fill(path: Path) -> None:
        folder = Folder.new(path)
        (path / "store").mkdir()
        make(folder, "first")
        make(folder, "second")
        make(folder, "alone", store="")

    return Folder(shared("store", fill))


@pytest.fixture
def studies(made, tmp_path) -> Folder:
    """A copy in which files of studies and store are not links."""
    return made.copy(tmp_path / "copy")


def taken(folder: Folder, name: str) -> list[str]:
    """The runs of a study that were not trained."""
    logs = folder.path / "results" / name / "logs" / "runs"
    found = [log for log in logs.rglob("train.log") if "not trained: taken from " in log.read_text()]
    return sorted(str(log.parent.relative_to(logs)) for log in found)


def contents(folder: Folder, name: str) -> dict[str, object]:
    """File of a study's runs: its bytes; of a table hashes of its rows, without measured times."""
    runs = folder.path / "results" / name / "runs"
    found: dict[str, object] = {}
    for path in sorted(p for p in runs.rglob("*") if p.is_file() and p.suffix not in (".pt", ".lock")):
        content: object = path.read_bytes()
        if path.suffix == ".parquet":
            rows = tables.read(path).drop(columns=TIMES, errors="ignore")
            content = [*rows], pd.util.hash_pandas_object(rows).tolist()
        elif path.name == "classifiers.json":
            described = json.loads(path.read_text())
            content = {key: described[key] for key in ("classes", "pooling", "sha256")}
        found[str(path.relative_to(runs))] = content
    return found


def test_two_studies_train_once_and_store_weights_once(made):
    assert (taken(made, "first"), taken(made, "second")) == ([], sorted(RUNS))
    entries = [*(made.path / "store").iterdir()]
    assert len(entries) == len(RUNS)
    assert [(entry / "trunk.pt").exists() for entry in entries].count(True) == 1
    for run in RUNS:
        first, second = (
            made.path / "results" / name / "runs" / run / "model" / "model.safetensors"
            for name in ("first", "second")
        )
        assert first.samefile(second) and first.stat().st_nlink == 3


def test_what_is_taken_is_what_would_have_been_trained_with_a_record_of_its_own(made):
    alone = contents(made, "alone")
    assert len(alone) > 20
    assert contents(made, "second") == alone and contents(made, "first") == alone
    for first, second in zip(targets("first", *RUNS), targets("second", *RUNS), strict=True):
        before, footer = (tables.footer(made.path / path) for path in (first, second))
        assert footer["study"] == "second" and second in footer["job"]["output"]
        assert all(footer[key] == before[key] for key in ("device", "precision", "seed", "versions"))


def test_the_store_is_no_reason_to_run_a_job(studies):
    """A job whose run was taken is up to date without the store, too, and without Snakemake's records."""
    second = [*targets("second"), "--config", "study=second"]
    (studies.path / "empty").mkdir()
    for store in ("store", "empty", ""):
        assert studies.plan(*second, HEADSPEC_STORE=store).rules == {}
    shutil.rmtree(studies.path / ".snakemake")
    assert studies.plan(*second).rules == {}
    refused = studies.snakemake("-n", fails=True, HEADSPEC_STORE="stoer")
    assert "HEADSPEC_STORE: no folder 'stoer' here; expected the folder that holds trained runs." in refused


def test_damaged_entries_are_trained_again_and_a_study_outlives_the_store(studies, monkeypatch):
    for entry in (studies.path / "store").iterdir():
        path = entry / ("trunk.pt" if (entry / "trunk.pt").exists() else "model.safetensors")
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    make(studies, "third")
    assert taken(studies, "third") == []
    logs = [studies.path / "results/third/logs/runs" / run / "train.log" for run in RUNS]
    assert all("training again, because the store has lost the run: " in log.read_text() for log in logs)
    assert contents(studies, "third") == contents(studies, "alone")
    make(studies, "fourth", *RUNS)
    assert taken(studies, "fourth") == sorted(RUNS)
    for name in ("store", "results/third"):  # whose files are links
        shutil.rmtree(studies.path / name)
    monkeypatch.chdir(studies.path)
    for run in RUNS:
        MultiTask.load(Path("results/fourth/runs", run, "model"))


def test_what_differs_is_trained(studies):
    pair, single = runs = RUNS[0], RUNS[-1]
    path = studies.path / "texts" / "topic.tsv"
    header, first, rest = path.read_text().split("\n", 2)
    path.write_text("\n".join([header, first.replace(" ", " lovely ", 1), rest]))
    make(studies, "third", *runs)
    assert taken(studies, "third") == [single]  # which does not read the text
    found = tables.footer(studies.path / "results/third/runs" / pair / "training.parquet")["precision"]
    make(studies, "fourth", *runs, precision=found)  # as "auto" was resolved
    assert taken(studies, "fourth") == sorted(runs)
    make(studies, "fifth", *runs, precision={"fp32": "bf16", "bf16": "fp32"}[found])
    assert taken(studies, "fifth") == []
