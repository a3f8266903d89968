"""The jobs of a run, and what their logs say of them."""

from __future__ import annotations

import logging
import os
import time

import pytest

from headspec.live.jobs import Jobs, LiveJob, seconds
from headspec.progress import Progress, duration


def jobs(**more: LiveJob) -> Jobs:
    """0 and 1 are needed by 2, which is needed by 3; 4 stands alone."""
    needs = {0: (), 1: (), 2: (0, 1), 3: (2,), 4: ()}
    return Jobs({id: LiveJob("train", needs=each, **more) for id, each in needs.items()}, 0)


@pytest.mark.parametrize("value", (0, 59, 60, 200, 3599, 3600, 7500, 100_000))
def test_seconds_are_the_inverse_of_words(value):
    lost = value % 60 if value >= 3600 else 0
    assert seconds(duration(value)) == value - lost


def test_the_end_of_a_log_is_what_progress_wrote(tmp_path, caplog):
    path = tmp_path / "train.log"
    job = LiveJob("train", log=str(path), begun=0.0)
    with caplog.at_level(logging.INFO, "headspec"):
        progress = Progress(200, "masked examples", interval=0)
        progress.begun -= 100
        progress.advance(50, "loss 0.3")
    path.write_text("".join(f"train a/b  {record.message}\n" for record in caplog.records))
    job.read_log(time.time())
    assert job.percent == 25 and job.left == pytest.approx(300, abs=5)
    path.write_text(path.read_text() + "train a/b  out of memory: batches of 9 tokens from here\n")
    job.read_log(time.time())
    assert job.percent == 25


def test_the_end_of_work_leaves_nothing(tmp_path, caplog):
    with caplog.at_level(logging.INFO, "headspec"):
        Progress(5, "texts").advance(5)
    path = tmp_path / "a.log"
    path.write_text(caplog.messages[-1])
    job = LiveJob("train", log=str(path), begun=0.0)
    job.read_log(time.time())
    assert (job.percent, job.left) == (100, 0)


def test_logs_that_say_nothing(tmp_path):
    path = tmp_path / "train.log"
    job = LiveJob("train", log=str(path), begun=1000.0)
    for text in (None, "", "data  960 rows, 0 empty\n"):
        if text is not None:
            path.write_text(text)
        job.read_log(1010.0)
        assert job.percent is job.left is None


def test_the_log_of_an_earlier_attempt_is_not_read(tmp_path):
    path = tmp_path / "train.log"
    path.write_text("train  40 %, 4 of 10 examples, 1 a second, 6 s left\n")
    os.utime(path, (time.time() - 60,) * 2)
    job = LiveJob("train", log=str(path), begun=1000.0)
    job.read_log(1030.0)
    assert job.percent is None
    job.read_log(1090.0)
    assert (job.percent, job.left) == (40, 0)


def test_what_needs_a_failed_job_cannot_run():
    run = jobs()
    run.start(0, "a", 1.0)
    run.fail(0)
    assert run.failed == [0] and run.lost == {2, 3} and run.running == []
    assert run.fail(0) is None  # said twice
    run.start(0, "a", 2.0)  # another attempt
    assert run.failed == [] and run.lost == set()
    assert run.finish(0, 5.0).taken == 3.0 and run.finished == 1


def test_targets_are_no_jobs():
    run = jobs()
    assert run.start(9, None, 0.0) is run.finish(9, 0.0) is run.fail(9) is None


def test_operations_are_in_the_order_of_the_jobs():
    run = Jobs({3: LiveJob("train"), 1: LiveJob("data")}, 0)
    assert run.forecast(0).wall is None
    run.count([0.0, None])
    assert [job.operations for job in run.jobs.values()] == [0.0, None]
    assert run.forecast(0).wall is not None


def test_lost_jobs_are_not_waited_for():
    run = jobs()
    run.count([None] * 5)
    before = run.forecast(0).left
    run.fail(2)
    assert run.forecast(0).left == pytest.approx(before * 3 / 5)


def test_what_progress_is_told_stays_with_it(tmp_path, caplog):
    path = tmp_path / "train.log"
    job = LiveJob("train", log=str(path), begun=0.0)
    with caplog.at_level(logging.INFO, "headspec"):
        progress = Progress(200, "examples", interval=0)
        progress.begun -= 100
        progress.advance(50, "loss 2.3")
        progress.tell("BLEU: german 21.3, french 19.8")
        progress.advance(50, "loss 2.1")
        progress.advance(100, "loss 2.0")
    for lines, told in ((1, ""), (2, progress.told), (3, progress.told), (4, progress.told)):
        path.write_text("\n".join(f"train a/b  {line}" for line in caplog.messages[:lines]))
        job.read_log(time.time())
        assert job.told == told.removeprefix("; ")
    assert job.told.startswith("BLEU") and job.percent == 100 and "loss 2.0" in caplog.messages[-1]
