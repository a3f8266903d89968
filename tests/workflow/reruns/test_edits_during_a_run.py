"""Code and files that are edited, or restored, while a study runs: no result mixes versions."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from support.running.edits import within
from support.running.faults import at_work, contents, until
from support.running.studies import Folder

pytestmark = pytest.mark.slow

RUN = "runs/bert/tone+topic/tuned/seed0"
TARGET = f"results/tiny/{RUN}/training.parquet"
SECTION = "workflow/headspec/training/schedule.py"
#: code that trains nothing
without_training = within("headspec/training/schedule.py", "learning_rate", "peak = 0.0")


def put_back(study: Folder, finished: Folder) -> None:
    shutil.copy(finished.path / SECTION, study.path / SECTION)


@pytest.fixture
def study(finished, tmp_path, monkeypatch) -> Folder:
    """A finished study that has lost one run, and enters what it trains into a store."""
    (tmp_path / "store").mkdir()
    monkeypatch.setenv("HEADSPEC_STORE", str(tmp_path / "store"))
    study = finished.copy(tmp_path / "study")
    shutil.rmtree(study.results / RUN)
    study.set("training.checkpoint_minutes", 0)
    return study


def while_stopped(study: Folder, change: Callable[[], object], fails: bool) -> str:
    """Train the run, with a change while the job stands before it gives its first checkpoint a name."""
    process = study.start(TARGET, FAULT="checkpoint.pt:1:stop")
    until(lambda: at_work(study.path, psutil.STATUS_STOPPED), process)
    change()
    for job in at_work(study.path, psutil.STATUS_STOPPED):
        job.send_signal(signal.SIGCONT)
    output, _ = process.communicate()
    assert bool(process.returncode) == fails, output
    return output


def stored(study: Folder) -> list[Path]:
    return list((study.path.parent / "store").iterdir())


def test_code_edited_before_a_job_loads_it_ends_the_job(study, finished):
    """It is put back before the study is planned again, so that files say what they said at first."""
    for made in ("data", "tokens"):
        shutil.rmtree(study.results / made)
    process = study.start(TARGET)
    until((study.results / "data" / "tone" / "train.parquet").exists, process)
    without_training(study)
    output, _ = process.communicate()
    assert process.returncode
    assert f"{SECTION} was edited after this job was planned. Nothing of it is kept. Start" in output
    assert "Traceback" not in output
    put_back(study, finished)
    assert not (study.path / TARGET).exists() and stored(study) == []
    assert study.plan(TARGET).rules == {"train": 1}
    shutil.rmtree(study.path / ".snakemake")
    assert study.plan(TARGET).rules == {"train": 1}


def test_code_edited_after_a_job_loaded_it_does_no_harm(study, finished):
    while_stopped(study, lambda: without_training(study), fails=False)
    assert len(stored(study)) == 1
    assert study.plan(TARGET).rules == {"train": 1}
    put_back(study, finished)
    assert study.plan(TARGET).rules == {}
    made, expected = contents(study.results / RUN), contents(finished.results / RUN)
    assert made["model/model.safetensors"] == expected["model/model.safetensors"]


def test_an_input_replaced_while_a_job_reads_it_ends_the_job(study):
    """Else the new one would be recorded as what the result was made from."""
    tokens = study.results / "tokens" / "bert" / "topic"
    shutil.copy2(tokens / "train.parquet", tokens / "kept")
    other = tokens / "validation.parquet"
    output = while_stopped(study, lambda: shutil.copy2(other, tokens / "train.parquet"), fails=True)
    assert "tokens/bert/topic/train.parquet was replaced while this job ran. Nothing of it is kept" in output
    assert not (study.path / TARGET).exists() and stored(study) == []
    os.replace(tokens / "kept", tokens / "train.parquet")
    study.snakemake(TARGET)
    assert study.plan(TARGET).rules == {}
