"""Snakemake with a store: studies that train the same train it once, and get what they would have trained."""

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


def make(folder: Folder, name: str, store: str | None, *runs: str, **settings: object) -> None:
    """Train runs of the study `name`, with a store or without."""
    folder.write(STUDY | {"study": name} | settings)
    folder.snakemake(*targets(name, *runs), **({"HEADSPEC_STORE": store} if store else {}))


def targets(name: str, *runs: str) -> list[str]:
    return [f"results/{name}/runs/{run}/training.parquet" for run in runs or (*RUNS, IAT)]


@pytest.fixture(scope="module")
def made(shared) -> Folder:
    """Studies `first` and `second` with a store, and `alone` without one."""

    def fill(path: Path) -> None:
        folder = Folder.new(path)
        (path / "store").mkdir()
        make(folder, "first", "store")
        make(folder, "second", "store")
        make(folder, "alone", None)

    return Folder(shared("store", fill))


@pytest.fixture
def studies(made, tmp_path) -> Folder:
    """A copy in which files of studies and store are no links."""
    return made.copy(tmp_path / "copy")


def taken(folder: Folder, name: str) -> list[str]:
    """The runs of a study that were not trained."""
    logs = folder.path / "results" / name / "logs" / "runs"
    found = [log for log in logs.rglob("train.log") if "not trained: taken from " in log.read_text()]
    return sorted(str(log.parent.relative_to(logs)) for log in found)


def contents(folder: Folder, name: str) -> dict[str, object]:
    """File of a study's runs: its bytes; of a table its rows, without measured times."""
    runs = folder.path / "results" / name / "runs"
    found: dict[str, object] = {}
    for path in sorted(p for p in runs.rglob("*") if p.is_file() and p.suffix not in (".pt", ".lock")):
        if path.suffix == ".parquet":
            found[str(path.relative_to(runs))] = tables.read(path).drop(columns=TIMES, errors="ignore")
        elif path.name == "classifiers.json":
            described = json.loads(path.read_text())
            found[str(path.relative_to(runs))] = {
                key: described[key] for key in ("classes", "pooling", "sha256")
            }
        else:
            found[str(path.relative_to(runs))] = path.read_bytes()
    return found


def assert_same(a: dict[str, object], b: dict[str, object]) -> None:
    assert list(a) == list(b)
    for name, value in a.items():
        if isinstance(value, pd.DataFrame):
            pd.testing.assert_frame_equal(value, b[name], check_exact=True)
        else:
            assert value == b[name], name


def test_two_studies_train_once(made):
    assert (taken(made, "first"), taken(made, "second")) == ([], sorted(RUNS))
    entries = [*(made.path / "store").iterdir()]
    assert len(entries) == len(RUNS)
    assert [(entry / "trunk.pt").exists() for entry in entries].count(True) == 1


def test_what_is_taken_is_what_would_have_been_trained(made):
    alone = contents(made, "alone")
    assert len(alone) > 20
    assert_same(contents(made, "second"), alone)
    assert_same(contents(made, "first"), alone)


def test_each_study_has_records_of_its_own(made):
    for run in RUNS:
        path = Path("results/second/runs", run, "training.parquet")
        footer = tables.footer(made.path / path)
        first = tables.footer(made.path / "results/first/runs" / run / "training.parquet")
        assert footer["study"] == "second" and str(path) in footer["job"]["output"]
        assert {key: footer[key] for key in ("device", "precision", "seed", "versions")} == {
            key: first[key] for key in ("device", "precision", "seed", "versions")
        }


def test_weights_are_stored_once(made):
    for run in RUNS:
        first, second = (
            made.path / "results" / name / "runs" / run / "model" / "model.safetensors"
            for name in ("first", "second")
        )
        assert first.samefile(second) and first.stat().st_nlink == 3


@pytest.mark.parametrize("store", ["", "store", "empty"])
def test_the_store_is_no_reason_to_run_a_job(made, store):
    (made.path / "empty").mkdir(exist_ok=True)
    assert made.plan(*targets("second"), "--config", "study=second", HEADSPEC_STORE=store).rules == {}


def test_records_of_a_taken_run_can_be_restored(studies):
    shutil.rmtree(studies.path / ".snakemake")
    assert studies.plan(*targets("second"), "--config", "study=second").rules == {}


def test_a_store_that_is_not_there_is_refused_before_any_job(made):
    output = made.snakemake("-n", fails=True, HEADSPEC_STORE="stoer")
    assert "HEADSPEC_STORE: no folder 'stoer' here; expected the folder that holds trained runs." in output


def test_damaged_entries_are_trained_again_and_a_study_outlives_the_store(studies, monkeypatch):
    for entry in (studies.path / "store").iterdir():
        path = entry / ("trunk.pt" if (entry / "trunk.pt").exists() else "model.safetensors")
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    make(studies, "third", "store")
    assert taken(studies, "third") == []
    logs = [studies.path / "results/third/logs/runs" / run / "train.log" for run in RUNS]
    assert all("training again, because the store has lost the run: " in log.read_text() for log in logs)
    assert_same(contents(studies, "third"), contents(studies, "alone"))
    make(studies, "fourth", "store", *RUNS)
    assert taken(studies, "fourth") == sorted(RUNS)
    for name in ("store", "results/third"):  # whose files are links
        shutil.rmtree(studies.path / name)
    monkeypatch.chdir(studies.path)
    for run in RUNS:
        MultiTask.load(Path("results/fourth/runs", run, "model"))


def test_what_differs_is_trained(studies):
    pair, single = runs = RUNS[0], RUNS[-1]
    path = studies.path / "texts" / "topic.tsv"
    lines = path.read_text().splitlines()
    lines[1] = lines[1].replace(" ", " lovely ", 1)
    path.write_text("\n".join(lines) + "\n")
    make(studies, "third", "store", *runs)
    assert taken(studies, "third") == [single]  # which does not read the text
    found = tables.footer(studies.path / "results/third/runs" / pair / "training.parquet")["precision"]
    make(studies, "fourth", "store", *runs, precision=found)  # as "auto" was resolved
    assert taken(studies, "fourth") == sorted(runs)
    make(studies, "fifth", "store", *runs, precision={"fp32": "bf16", "bf16": "fp32"}[found])
    assert taken(studies, "fifth") == []
