"""The jobs of a run, and their progress by their logs."""

import logging
import os
import time
from pathlib import Path

import pytest

from headspec.live.jobs import Jobs, LiveJob, read_log, seconds
from headspec.progress import Progress, duration


def jobs() -> Jobs:
    """0 and 1 are needed by 2, which is needed by 3; 4 stands alone."""
    needs = {0: (), 1: (), 2: (0, 1), 3: (2,), 4: ()}
    return Jobs({id: LiveJob("train", needs=each) for id, each in needs.items()}, 0)


@pytest.mark.parametrize("value", (0, 59, 60, 200, 3599, 3600, 7500, 100_000))
def test_seconds_are_the_inverse_of_words(value):
    lost = value % 60 if value >= 3600 else 0
    assert seconds(duration(value)) == value - lost


@pytest.fixture
def job(tmp_path) -> LiveJob:
    return LiveJob("train", log=str(tmp_path / "train.log"), begun=1000.0)


def test_a_log_says_how_far_its_job_is(job, caplog):
    with caplog.at_level(logging.INFO, "headspec"):
        progress = Progress(200, "examples", interval=0)
        progress.begun -= 100
        progress.advance(50, "loss 2.3")
        progress.advance(50, "loss 2.1")
        progress.advance(100, "loss 2.0")
    for n, (percent, left) in enumerate([(25, 300), (50, 100), (100, 0)], 1):
        lines = [f"train a/b  {line}\n" for line in caplog.messages[:n]]
        for more in ("", "train a/b  out of memory: batches of 9 tokens from here\n"):
            Path(job.log).write_text("".join(lines) + more)
            read_log(job, 1e10)
            assert job.percent == percent
            assert job.left == pytest.approx(left, abs=5)
    assert "loss 2.0" in caplog.messages[-1]


def test_logs_that_say_nothing_and_those_of_an_earlier_attempt_are_passed_over(job):
    for text in (None, "", "data  960 rows, 0 empty\n"):
        if text is not None:
            Path(job.log).write_text(text)
        read_log(job, 1010.0)
        assert job.percent is job.left is None
    Path(job.log).write_text("train  40 %, 4 of 10 examples, 1 a second, 6 s left\n")
    os.utime(job.log, (time.time() - 60,) * 2)
    read_log(job, 1030.0)
    assert job.percent is None
    read_log(job, 1090.0)
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
    # a target is no job
    assert run.start(9, None, 0.0) is run.finish(9, 0.0) is run.fail(9) is None


def test_operations_are_in_the_order_of_the_jobs_and_lost_ones_are_not_waited_for():
    run = Jobs({3: LiveJob("train"), 1: LiveJob("data")}, 0)
    assert run.forecast(0).wall is None
    run.count([0.0, None])
    assert [job.operations for job in run.jobs.values()] == [0.0, None]
    assert run.forecast(0).wall is not None
    run = jobs()
    run.count([None] * 5)
    before = run.forecast(0).left
    run.fail(2)
    assert run.forecast(0).left == pytest.approx(before * 3 / 5)
