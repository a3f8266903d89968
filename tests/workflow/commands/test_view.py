"""The view of a run, on a terminal and elsewhere."""

import os
import re
import signal

import pytest

from support.running.studies import Folder
from support.running.terminals import on_terminal

pytestmark = pytest.mark.slow

DATA = "results/tiny/data/tone/train.parquet"
TRAINED = "results/tiny/runs/bert/tone/single/seed0/training.parquet"


@pytest.fixture
def folder(tmp_path) -> Folder:
    return Folder.new(tmp_path / "study")


def plain(written: str) -> str:
    """What is written, without colours and moves of the cursor."""
    return re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", written)


def left(written: str) -> str:
    """What is written after the last picture; lines of before may be above that picture already."""
    return plain(written.split("\x1b[?25h")[-1])


def interrupt(pid: int, terminal: int) -> None:
    os.killpg(pid, signal.SIGINT)


def test_without_a_terminal_a_job_is_a_line_when_it_starts_and_one_when_it_ends(folder):
    folder.set("training.learning_rate", "1e30")
    lines = folder.snakemake(TRAINED, fails=True).splitlines()
    assert "tiny: 4 jobs" in lines
    events = [line[10:] for line in lines if re.match(r"\d\d:\d\d:\d\d  ", line)]
    job = "Training bert on tone, single, seed 0"
    log = "results/tiny/logs/runs/bert/tone/single/seed0/train.log"
    assert len(events) == 8 and events[-2:] == [f"started   {job}", f"failed    {job}, see {log}"]
    assert {re.sub(r"\(\d.*?\); \d", "", event) for event in events[:6] if event.startswith("finished")} == {
        f"finished  {what}  of 4 jobs" for what in (
            "Reading training texts of task tone", "Reading validation texts of task tone",
            "Tokens of task tone for bert",
        )
    }  # fmt: skip
    (error,) = [line for line in lines if "the loss is nan" in line]
    assert error.startswith("train bert/tone/single/seed0  step ")
    assert re.fullmatch(r"tiny: 3 of 4 jobs done in .+, 1 failed", lines[-3])
    assert lines[-2:] == [f"failed: {job}", f"  {log}"]
    assert "examples" not in "\n".join(lines)  # counts of data and progress are in the logs
    everything = max((folder.path / ".snakemake" / "log").iterdir()).read_text()
    assert "Finished jobid" in everything and "Job stats" in everything


def test_a_run_on_a_terminal_is_stopped_and_goes_on(folder):
    status, written = on_terminal(folder, TRAINED, at="  Training bert on tone", do=interrupt)
    assert status == 1
    assert "━" in written and "4 jobs, 1 of 2 cores" in written
    assert "Complete log(s): " in plain(written)
    (said,) = re.findall(r"^tiny: .+$", left(written), re.MULTILINE)
    # under load the job may end by Ctrl-C before Snakemake sees it
    assert re.fullmatch(r"tiny: 3 of 4 jobs done in .+, 1 (left: start again to go on|failed)", said)
    assert "Traceback" not in written and "RuleException" not in written

    status, written = on_terminal(folder, TRAINED)
    assert status == 0 and (folder.path / TRAINED).exists()
    # the job may have ended after the interrupt
    ended = r"tiny: 1 of 1 jobs done in .+|Nothing to be done .+"
    assert re.fullmatch(ended, left(written).splitlines()[-1])


def test_an_error_of_the_view_does_not_stop_the_run(folder):
    folder.replace(
        "workflow/headspec/live/progress_display.py", "    failures = ", "    1 / 0\n    failures = "
    )
    status, written = on_terminal(folder, TRAINED)
    assert status == 0 and (folder.path / TRAINED).exists()
    assert "the view of the run ended with ZeroDivisionError('division by zero'); the run" in written
    assert "4 of 4 steps (100%) done" in left(written)


def test_a_breakpoint_ends_a_job_unless_the_debugger_has_the_terminal(folder):
    folder.replace("workflow/scripts/data/training.py", "    task = ", "    breakpoint()\n    task = ")
    status, written = on_terminal(folder, DATA)
    assert status == 1 and not (folder.path / DATA).exists()
    assert "data tone  left at a breakpoint; `headspec debug <result>` stops there" in plain(written)

    def ask_and_go_on(pid: int, terminal: int) -> None:
        os.write(terminal, b"p 6 * 7\nc\n")

    options = "--debug", "--cores", "1"
    status, written = on_terminal(folder, DATA, *options, at="(Pdb) ", do=ask_and_go_on)
    assert status == 0 and (folder.path / DATA).exists()
    assert "\n42\n" in written and "━" not in written


@pytest.mark.parametrize("quiet", (["all"], ["progress", "rules"]), ids=str)
def test_who_wants_quiet_gets_it(folder, quiet):
    _, written = on_terminal(folder, DATA, "--quiet", *quiet)
    assert (folder.path / DATA).exists()
    assert "━" not in written and "jobs done" not in written


def test_a_terminal_that_cannot_redraw_gets_lines(folder):
    _, written = on_terminal(folder, DATA, TERM="dumb")
    assert "\x1b" not in written and re.search(r"^\d\d:\d\d:\d\d  finished  Reading", written, re.MULTILINE)
