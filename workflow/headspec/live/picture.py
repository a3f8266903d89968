"""The picture of a run for a terminal, and its closing lines."""

import math
import time
from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headspec.live.jobs import Jobs, LiveJob
from headspec.progress import duration

FAILED = 3  # failed jobs in the picture
NARROW = 80  # columns below which running jobs have no bars
BAR = 20  # columns of a running job's bar


def picture(study: str, jobs: Jobs, cores: int | None, width: int, height: int, now: float) -> RenderableType:
    """Return the state of the run in at most `height` lines; `cores` is None if jobs run elsewhere."""
    failures = list(_failures(jobs, FAILED))
    rows = max(height - 2 - len(failures), 1)
    return Group(
        _whole(study, jobs, now),
        Text(status(jobs, cores, now), no_wrap=True, overflow="ellipsis"),
        _running(jobs.running, rows, width, now),
        *(Text(line, style="red", no_wrap=True, overflow="ellipsis") for line in failures),
    )


def _whole(study: str, jobs: Jobs, now: float) -> Table:
    """Return the bar of the whole run, by expected seconds, or by jobs while these are unknown."""
    forecast, finished = jobs.forecast(now), jobs.finished / max(len(jobs.jobs), 1)
    share = finished if forecast.wall is None or finished == 1 else min(forecast.share, 0.99)
    line = Table.grid(padding=(0, 1), expand=True)
    line.add_column(no_wrap=True)
    line.add_column(ratio=1)
    line.add_column(justify="right", no_wrap=True)
    line.add_row(Text(study, style="bold"), ProgressBar(total=1.0, completed=share), f"{int(100 * share)} %")
    return line


def _running(running: list[LiveJob], rows: int, width: int, now: float) -> Table:
    """Return rows on running jobs, longest first and a count of the rest."""
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
    """``26 of 124 jobs, 2 of 2 cores, 14 min left, ends 15:42``"""
    parts = [f"{jobs.finished} of {len(jobs.jobs)} jobs"]
    if cores is not None:
        parts.append(f"{sum(job.cores for job in jobs.running)} of {cores} cores")
    return ", ".join([*parts, *time_left(jobs, now)])


def time_left(jobs: Jobs, now: float) -> list[str]:
    """Return ``14 min left`` and ``ends 15:42``; nothing while this is unknown, or at the end."""
    wall = jobs.forecast(now).wall
    if not wall:
        return []
    minutes = math.ceil(wall / 60)
    left = f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
    end = time.localtime(time.time() + wall)
    far = "%H:%M" if wall < 12 * 3600 else "%a %H:%M" if wall < 6 * 86400 else "%d %b"
    return [f"{left} left", f"ends {time.strftime(far, end)}"]


def _failures(jobs: Jobs, most: int | None = None) -> Iterator[str]:
    """Yield name and log of each failed job, a line each; a last line counts those left out."""
    for id in jobs.failed[:most]:
        yield f"failed: {jobs.jobs[id].name}"
        yield f"  {jobs.jobs[id].log}"
    if left := len(jobs.failed) - len(jobs.failed[:most]):
        yield f"failed: {left} more"


def closing(study: str, jobs: Jobs, now: float) -> list[str]:
    """Return the lines that a run leaves: counts, time, and what failed."""
    finished, all_jobs = jobs.finished, len(jobs.jobs)
    first = f"{study}: {finished} of {all_jobs} jobs done in {duration(now - jobs.begun)}"
    if jobs.failed:
        first += f", {len(jobs.failed)} failed"
    if lost := len(jobs.lost):
        first += f", {lost} need what failed"
    if stopped := all_jobs - finished - len(jobs.failed) - lost:
        first += f", {stopped} left: start again to go on"
    return [first, *_failures(jobs)]
