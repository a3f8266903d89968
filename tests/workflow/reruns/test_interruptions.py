"""Runs that are killed, and two at once: nothing is lost, and nothing is made twice."""

import os
import shutil
import signal
import time

import psutil
import pytest

from headspec import tables
from support.running.faults import at_work, contents, until
from support.running.storms import forks_of
from support.running.studies import Folder

pytestmark = pytest.mark.slow

PAIR = "runs/bert/tone+topic/tuned"


@pytest.fixture
def interruptible(study) -> Folder:
    """A finished study, with a checkpoint after every training step."""
    study.set("training.checkpoint_minutes", 0)
    return study


def test_a_job_left_running_is_waited_for(finished, interruptible):
    """Only the snakemake process is killed; its training job still runs when the next one starts."""
    study, run = interruptible, f"{PAIR}/seed1"
    shutil.rmtree(study.results / run)
    target = f"results/tiny/{run}/training.parquet"
    first = study.start(target, FAULT="checkpoint.pt:40:stop")
    until(lambda: at_work(study.path, psutil.STATUS_STOPPED))
    (job,) = at_work(study.path, psutil.STATUS_STOPPED)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    second = study.start(target)
    try:
        log = study.results / "logs" / run / "train.log"
        until(lambda: log.exists() and "waiting for another process" in log.read_text())
        assert second.poll() is None
    finally:
        job.send_signal(signal.SIGCONT)
        output, _ = second.communicate()
        first.communicate()
    assert second.returncode == 0, output
    until(lambda: not at_work(study.path))
    trained, expected = contents(study.results / run), contents(finished.results / run)
    assert len(trained) == 4 and trained == {name: expected[name] for name in trained}


def test_a_job_killed_for_its_memory_is_retried_with_smaller_batches(finished, interruptible):
    """As on a cluster: the next attempt continues with batches in microbatches, and gets the same numbers."""
    study, run = interruptible, f"{PAIR}/seed0"
    shutil.rmtree(study.results / run)
    target = f"results/tiny/{run}/training.parquet"
    output = study.snakemake(target, "--retries", "1", FAULT="checkpoint.pt:60:kill")
    assert "Trying to restart job" in output
    log = (study.results / "logs" / run / "train.log").read_text()
    assert "continuing after step 59 of 104" in log and "batches in 2 microbatches" in log
    expected, retried = (tables.read(folder.path / target)["loss"] for folder in (finished, study))
    assert retried[:59].equals(expected[:59])
    # microbatches are rounded differently from the whole batch
    assert retried.to_numpy() == pytest.approx(expected.to_numpy(), rel=0.05, abs=0.01)


def test_a_job_that_ends_after_its_workflow_was_interrupted_is_not_repeated(interruptible):
    """The workflow gets SIGINT and SIGTERM; its job, which gets neither, writes its files while it waits."""
    study, target = interruptible, "results/tiny/data/tone/train.parquet"
    (study.path / target).unlink()
    first = study.start(target, FAULT="train.parquet:1:stop")
    until(lambda: at_work(study.path, psutil.STATUS_STOPPED))
    (job,) = at_work(study.path, psutil.STATUS_STOPPED)
    workflow = min(forks_of(study), key=lambda process: process.create_time())
    assert workflow.pid != job.pid
    for sent in (signal.SIGINT, signal.SIGTERM):
        workflow.send_signal(sent)
        time.sleep(1)
    job.send_signal(signal.SIGCONT)
    first.communicate()
    until(lambda: not at_work(study.path))
    assert first.returncode and (study.path / target).exists()
    assert study.plan(target).rules == {}


@pytest.mark.parametrize(
    ("locks", "message", "deleted"),
    [
        ("nolock: true\n", "another snakemake is running", ""),
        ("nolock: true\n", "another snakemake is running", ".snakemake"),
        ("", "Directory cannot be locked", ""),
    ],
    ids=["one machine", "without records", "machines without common locks"],
)
def test_two_at_once_are_refused(interruptible, locks, message, deleted):
    """By the lock of headspec; or by the file that Snakemake leaves for other machines, as in the docs."""
    study = interruptible
    study.replace("profiles/default/profile.yaml", "nolock: true\n", locks)
    shutil.rmtree(study.results / "data" / "tone")
    target = "results/tiny/data/tone/train.parquet"
    first = study.start(target, FAULT="train.parquet:1:stop")
    until(lambda: at_work(study.path, psutil.STATUS_STOPPED))
    if deleted:
        shutil.rmtree(study.path / deleted)
    try:
        assert message in study.snakemake(target, fails=True)
    finally:
        for process in at_work(study.path):
            process.send_signal(signal.SIGCONT)
        output, _ = first.communicate()
    assert deleted or first.returncode == 0, output  # Snakemake keeps the script of its job there
