"""Live progress at the bottom of the terminal, below other output, and its closing lines."""

import contextlib
import math
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from queue import SimpleQueue

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headspec.live.jobs import Jobs, LiveJob
from headspec.progress import duration

FAILED = 3  # failed jobs shown
NARROW = 80  # width in columns below which running jobs have no bars
BAR = 20  # width in columns of a running job's bar


def picture(study: str, jobs: Jobs, cores: int | None, width: int, height: int, now: float) -> RenderableType:
    """Return the state of the run in at most `height` lines; `cores` is None on a cluster."""
    failures = list(_failures(jobs, FAILED))[: max(height - 3, 0)]
    lines: list[RenderableType] = [
        _whole(study, jobs, now),
        Text(status(jobs, cores, now), no_wrap=True, overflow="ellipsis"),
        _running(jobs.running, height - 2 - len(failures), width, now),
        *(Text(line, style="red", no_wrap=True, overflow="ellipsis") for line in failures),
    ]
    return Group(*lines[:height])


def _whole(study: str, jobs: Jobs, now: float) -> Table:
    """Return the bar of the whole run, by expected seconds, or by jobs until these are known."""
    forecast, finished = jobs.forecast(now), jobs.finished / max(len(jobs.jobs), 1)
    share = finished if forecast.wall is None or finished == 1 else min(forecast.share, 0.99)
    line = Table.grid(padding=(0, 1), expand=True)
    line.add_column(no_wrap=True)
    line.add_column(ratio=1)
    line.add_column(justify="right", no_wrap=True)
    line.add_row(Text(study, style="bold"), ProgressBar(total=1.0, completed=share), f"{int(100 * share)} %")
    return line


def _running(running: list[LiveJob], rows: int, width: int, now: float) -> Table:
    """Return rows for running jobs, longest first, and a count of the rest."""
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    if width >= NARROW:
        table.add_column(width=BAR)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    ordered = sorted(running, key=lambda job: job.begun or 0.0)
    shown = ordered if len(ordered) <= rows else ordered[: rows - 1]
    for job in shown:
        known = job.percent is not None
        bar: list[RenderableType] = [ProgressBar(total=100, completed=job.percent or 0) if known else ""]
        percent = f"{job.percent} %" if known else ""
        spent = duration(now - (job.begun or now))
        table.add_row(f"  {job.name}", *(bar if width >= NARROW else []), percent, spent)
    if len(ordered) > len(shown):
        table.add_row(f"  and {len(ordered) - len(shown)} more")
    return table


def status(jobs: Jobs, cores: int | None, now: float) -> str:
    """Return ``26 of 124 jobs, 2 of 2 cores, 14 min left, ends 15:42``."""
    parts = [f"{jobs.finished} of {len(jobs.jobs)} jobs"]
    if cores is not None:
        parts.append(f"{sum(job.cores for job in jobs.running)} of {cores} cores")
    return ", ".join([*parts, *time_left(jobs, now)])


def time_left(jobs: Jobs, now: float) -> list[str]:
    """Return ``14 min left`` and ``ends 15:42``; empty while unknown, and at the end."""
    wall = jobs.forecast(now).wall
    if not wall:
        return []
    minutes = math.ceil(wall / 60)
    left = f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
    end = time.localtime(time.time() + wall)
    far = "%H:%M" if wall < 12 * 3600 else "%a %H:%M" if wall < 6 * 86400 else "%d %b"
    return [f"{left} left", f"ends {time.strftime(far, end)}"]


def _failures(jobs: Jobs, most: int | None = None) -> Iterator[str]:
    """Yield two lines for each failed job, name and log, of at most `most`; then the number of the others."""
    for id in jobs.failed[:most]:
        yield f"failed: {jobs.jobs[id].name}"
        yield f"  {jobs.jobs[id].log}"
    if left := len(jobs.failed) - len(jobs.failed[:most]):
        yield f"failed: {left} more"


def closing(study: str, jobs: Jobs, now: float) -> list[str]:
    """Return the lines printed at the end of a run: counts, time, and failures."""
    finished, all_jobs = jobs.finished, len(jobs.jobs)
    first = f"{study}: {finished} of {all_jobs} jobs done in {duration(now - jobs.begun)}"
    if jobs.failed:
        first += f", {len(jobs.failed)} failed"
    if lost := len(jobs.lost):
        first += f", {lost} need what failed"
    if stopped := all_jobs - finished - len(jobs.failed) - lost:
        first += f", {stopped} left: start again to go on"
    return [first, *_failures(jobs)]


SECONDS = 0.5  # between redraws
STREAMS = 1, 2  # standard output and error
ECHO = 3  # columns left free for an echoed ^C, which would wrap the last line
CHUNK = 1 << 16  # bytes copied at once


def usable() -> bool:
    """Return whether standard error is an interactive terminal that can redraw lines."""
    redraws = os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
    return redraws and not os.environ.get("CI") and os.isatty(2)


class Terminal:
    """Draws `picture`, a function of width and height called in a thread, until it is closed.

    Output of this process and its jobs goes to a file, which unlike a pipe never blocks a job, and is copied
    above the picture. Jobs cannot read from the terminal. `broken` receives errors of the view.
    """

    def __init__(
        self, picture: Callable[[int, int], RenderableType], broken: Callable[[Exception], None], color: bool
    ) -> None:
        self.picture, self.broken = picture, broken
        self.terminals = {stream: os.dup(stream) for stream in STREAMS if os.isatty(stream)}
        self.written = tempfile.TemporaryFile()  # noqa: SIM115
        self.keys = os.dup(0)
        self.seen = self.copied = 0  # bytes of `written`
        self.muted = False
        file = open(os.dup(2), "w", encoding=sys.stderr.encoding, errors="replace")  # noqa: SIM115
        no_color = None if color else True
        self.console = Console(file=file, force_terminal=True, no_color=no_color, highlight=False)
        self.live = Live(
            console=self.console, auto_refresh=False, transient=True,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        self.said: SimpleQueue[str] = SimpleQueue()
        self.closed = threading.Event()
        _flush()
        for stream in self.terminals:
            os.dup2(self.written.fileno(), stream)
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
        self.live.start()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def say(self, text: str) -> None:
        """Write `text`, which may have escape sequences for colours, above the picture."""
        self.said.put(text)

    def mute(self) -> None:
        """Discard standard output and error from now on, and of the last half second."""
        self.muted = True

    def close(self) -> None:
        """Write all output, remove the picture and restore the terminal."""
        if self.closed.is_set():
            return
        self.closed.set()
        if threading.current_thread() is not self.thread:
            self.thread.join()
        with contextlib.suppress(Exception):
            self.live.stop()
        with contextlib.suppress(Exception):
            self._copy(all_of_it=True)
        _flush()
        for stream, terminal in self.terminals.items():
            os.dup2(terminal, stream)
        os.dup2(self.keys, 0)

    def _run(self) -> None:
        try:
            while not self.closed.wait(SECONDS):
                columns, lines = os.get_terminal_size(self.terminals[2])
                width, height = max((columns or 80) - ECHO, 1), lines or 24
                self.console.size = width, height
                self._copy()
                self.live.update(self.picture(width, height - 1), refresh=True)
        except Exception as error:
            self.broken(error)

    def _copy(self, all_of_it: bool = False) -> None:
        """Copy new output above the picture, except an unfinished line; half a second late, for `mute`."""
        while not self.said.empty():
            self.console.print(Text.from_ansi(self.said.get()), soft_wrap=True)
        if self.muted:
            return
        size = os.fstat(self.written.fileno()).st_size
        end, self.seen = size if all_of_it else self.seen, size
        while new := os.pread(self.written.fileno(), min(CHUNK, end - self.copied), self.copied):
            if not all_of_it:
                new = new[: new.rfind(b"\n") + 1]
            if not new:
                break
            self.copied += len(new)
            for line in new.decode(errors="replace").removesuffix("\n").split("\n"):
                drawn_last = line.rstrip("\r").rpartition("\r")[2]
                self.console.print(Text.from_ansi(drawn_last), soft_wrap=True)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
