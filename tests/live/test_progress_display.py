"""Live progress of a run, drawn as text."""

import io
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

from headspec.live.jobs import Jobs, LiveJob
from headspec.live.progress_display import closing, picture, status

NAME = "Training minilm on sentiment+topic, tuned, seed {}"
LOG = "results/demo/logs/runs/minilm/sentiment+topic/tuned/seed{}/train.log"


def drawn(jobs: Jobs, width: int = 100, height: int = 24) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, record=True)
    console.print(picture("demo", jobs, 2, width, height, 100.0))
    return [line.rstrip() for line in console.export_text().splitlines()]


def run(n: int = 6, running: int = 2, failed: int = 0, finished: int = 1) -> Jobs:
    """Jobs of which some have finished, then some failed, then some run."""
    jobs = Jobs({i: LiveJob("train", log=LOG.format(i), cores=1) for i in range(n)}, 0.0)
    for i in range(finished + failed + running):
        jobs.start(i, NAME.format(i), 10.0 + i)
        if i < finished:
            jobs.finish(i, 50.0)
        elif i < finished + failed:
            jobs.fail(i)
    return jobs


def test_all_of_the_run_and_what_runs():
    jobs = run()
    jobs.jobs[1].percent = 45
    whole, state, first, second = drawn(jobs)
    assert re.fullmatch(r"demo ━+╸? +16 %", whole)
    assert state == "1 of 6 jobs, 2 of 2 cores"
    assert re.fullmatch(r"  Training minilm on sentiment\+topic, tuned, seed 1 +━+╸? +45 % 1 min 29 s", first)
    assert re.fullmatch(r"  Training minilm on sentiment\+topic, tuned, seed 2 +1 min 28 s", second)
    assert status(jobs, None, 100.0) == "1 of 6 jobs"  # cores elsewhere are not counted
    # failures stay with their logs
    assert drawn(run(failed=1))[-2:] == [f"failed: {NAME.format(1)}", f"  {LOG.format(1)}"]


def test_the_bar_goes_by_seconds_once_they_are_known():
    jobs = run(n=2, running=1)
    jobs.count([None] * len(jobs.jobs))
    jobs.jobs[1].left = 40.0
    assert drawn(jobs)[0].endswith(" 76 %")  # 40 and 89 seconds of 169
    assert re.search(r"1 of 2 jobs, 1 of 2 cores, 1 min left, ends \d\d:\d\d$", drawn(jobs)[1])
    jobs.jobs[1].left = 0.0
    assert drawn(jobs)[0].endswith(" 99 %")
    jobs.finish(1, 100.0)
    assert drawn(jobs) == [drawn(jobs)[0], "2 of 2 jobs, 0 of 2 cores"]
    assert drawn(jobs)[0].endswith(" 100 %")


@pytest.mark.parametrize("width", (40, 60, 79, 80, 100, 200))
def test_lines_fit_the_terminal(width):
    lines = drawn(run(n=40, running=30, failed=6), width, 16)
    assert len(lines) == 16 and max(map(len, lines)) <= width
    more = [line for line in lines if " more" in line]
    assert [line.split()[0] for line in more] == ["and", "failed:"]
    shown = sum("Training" in line and "failed" not in line for line in lines)
    assert more[0].strip() == f"and {30 - shown} more" and more[1] == "failed: 3 more"


@given(st.integers(1, 120), st.integers(1, 30), st.integers(0, 30), st.integers(0, 9), st.integers(0, 1))
@example(20, 4, 5, 3, 1)
def test_no_terminal_is_too_small(width, height, running, failed, finished):
    lines = drawn(run(40, running, failed, finished), width, height)
    assert 1 <= len(lines) <= height and max(map(len, lines)) <= width


def test_a_run_that_took_long_says_the_day():
    jobs = run(n=2, running=1)
    jobs.count([None] * len(jobs.jobs))
    for hours, end in ((1, r"\d\d:\d\d"), (30, r"\w+ \d\d:\d\d"), (200, r"\d\d \w+")):
        jobs.jobs[1].left = hours * 3600.0
        assert re.search(f", {hours} h 0 min left, ends {end}$", status(jobs, 2, 100.0))


def test_what_a_run_leaves():
    assert closing("demo", run(n=2, running=0, finished=2), 125.0) == ["demo: 2 of 2 jobs done in 2 min 5 s"]
    jobs = run(n=5, running=0, failed=1)
    jobs.jobs[3].needs = (1,)
    first, *rest = closing("demo", jobs, 60.0)
    assert first == (
        "demo: 1 of 5 jobs done in 1 min 0 s, 1 failed, 1 need what failed, 2 left: start again to go on"
    )
    assert rest == [f"failed: {NAME.format(1)}", f"  {LOG.format(1)}"]
