"""The jobs of a workflow run, and a forecast of the time left, from the plan and similar jobs."""

import heapq
import itertools
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headspec.cost.passes import STARTS

RATE = 5e10  # FLOP/s assumed until a job has run; only weighs starts against operations


@dataclass
class LiveJob:
    """A job of a workflow run, with its progress."""

    rule: str
    wildcards: Mapping[str, str] = field(default_factory=dict)
    log: str = ""
    cores: int = 1
    at_once: int = 1  #: similar jobs that can run side by side
    needs: tuple[int, ...] = ()  #: ids of the jobs whose outputs it reads
    operations: float | None = None  #: floating-point operations; None if it runs no model, or until counted
    begun: float | None = None  #: time at which it started, in seconds
    taken: float | None = None  #: duration in seconds, once it has finished
    left: float | None = None  #: remaining seconds, according to its log
    percent: int | None = None  #: of its work, according to its log
    name: str = ""  #: what it does; empty until it starts

    @property
    def planned(self) -> float:
        """The seconds that it is planned to take, from its operations."""
        model_start, light_start = STARTS
        return light_start if self.operations is None else model_start + self.operations / RATE

    @property
    def groups(self) -> Iterator[tuple[object, ...]]:
        """Keys of groups of similar jobs, most similar first.

        By rule and model, by rule, by the first word of the rule (such as for all figures), and by whether
        they run a model.
        """
        yield self.rule, self.wildcards.get("model")
        yield (self.rule,)
        yield (self.rule.partition("_")[0], "first word")
        yield (None if self.operations is None else self.operations > 0,)


@dataclass(frozen=True)
class Forecast:
    """Seconds of all jobs, done and left."""

    done: float
    left: float
    wall: float | None  #: until the last job ends; None while no similar job has shown its speed

    @property
    def share(self) -> float:
        """The fraction that is done, from 0 to 1."""
        return self.done / (self.done + self.left) if self.done + self.left else 1.0


def forecast(jobs: Mapping[int, LiveJob], now: float) -> Forecast:
    """Return what is done of `jobs`, by id, and what is left at the time `now`.

    Jobs are assumed to start as soon as what they need is done and the machine has room, and overdue jobs to
    need as much time again as they are overdue.
    """
    shown: dict[tuple[object, ...], list[tuple[float, float]]] = {}
    for job in jobs.values():
        if (seconds := _shown(job, now)) is not None:
            for group in job.groups:
                shown.setdefault(group, []).append((seconds / job.planned, job.planned))
    factors = {group: _median(each) for group, each in shown.items()}
    done, known = 0.0, True
    left: dict[int, float] = {}
    for id, job in jobs.items():
        if job.taken is not None:
            done += job.taken
            continue
        spent = 0.0 if job.begun is None else now - job.begun
        factor = next((factors[group] for group in job.groups if group in factors), None)
        known &= factor is not None or not job.operations
        expected = job.planned * (1.0 if factor is None else factor)
        left[id] = abs(expected - spent) if job.left is None else job.left
        done += spent
    return Forecast(done, sum(left.values()), _wall(jobs, left) if known else None)


def _wall(jobs: Mapping[int, LiveJob], left: Mapping[int, float]) -> float:
    """Return the seconds until the last job ends, given the share of the machine that each needs."""
    waits = {id: sum(needed in left for needed in jobs[id].needs) for id in left}
    followers: dict[int, list[int]] = {}
    ready: dict[float, list[int]] = {}  # by share, in order
    running: list[tuple[float, int]] = []
    for id in left:
        for needed in jobs[id].needs:
            followers.setdefault(needed, []).append(id)
        if jobs[id].begun is not None:
            running.append((left[id], id))
        elif not waits[id]:
            ready.setdefault(1 / jobs[id].at_once, []).append(id)
    heapq.heapify(running)
    room = 1.0 - sum(1 / jobs[id].at_once for _, id in running)
    now = 0.0
    while running or any(ready.values()):
        for share, ids in sorted(ready.items(), reverse=True):
            while ids and (share <= room + 1e-9 or not running):
                id = heapq.heappop(ids)
                heapq.heappush(running, (now + left[id], id))
                room -= share
        now, id = heapq.heappop(running)
        room += 1 / jobs[id].at_once
        for follower in followers.get(id, ()):
            waits[follower] -= 1
            if not waits[follower] and jobs[follower].begun is None:
                heapq.heappush(ready.setdefault(1 / jobs[follower].at_once, []), follower)
    return now


def _shown(job: LiveJob, now: float) -> float | None:
    """Return the total seconds that a job took or, by its log, will take."""
    if job.taken is not None:
        return job.taken
    return None if job.left is None or job.begun is None else now - job.begun + job.left


def _median(values: list[tuple[float, float]]) -> float:
    """Return the weighted median of (value, weight), robust to one paused job and to many small ones."""
    ordered = sorted(values)
    sums = list(itertools.accumulate(weight for _, weight in ordered))
    return next(value for (value, _), reached in zip(ordered, sums, strict=True) if reached >= sums[-1] / 2)


#: a line of `headspec.progress.Progress`
PROGRESS = re.compile(r"(\d+) %, \d+ of \d+ .*?(?:(\d[^,]*) left|took [^,;]*)")
UNITS = {"s": 1, "min": 60, "h": 3600}
END = 4096  # bytes read at the end of a log


def read_log(job: LiveJob, now: float) -> None:
    """Update a job from the end of its log, unless an earlier attempt wrote it."""
    job.percent = job.left = None
    if job.begun is None:
        return
    try:
        with open(job.log, "rb") as file:
            age = time.time() - os.fstat(file.fileno()).st_mtime
            file.seek(-min(END, file.seek(0, os.SEEK_END)), os.SEEK_END)
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return
    match = next(filter(None, map(PROGRESS.search, reversed(lines))), None)
    if match and age < now - job.begun + 1:
        job.percent = int(match[1])
        job.left = max(seconds(match[2] or "0 s") - age, 0.0)


def live_jobs(dag: Any, limits: Mapping[str, int]) -> dict[int, LiveJob]:
    """Return the jobs with outputs that Snakemake will run, by id; `limits` are shared resources."""
    jobs = {}
    for job in dag.needrun_jobs():
        wanted = {name: n for name, n in job.scheduler_resources.items() if n and name in limits}
        if job.output:
            jobs[dag.jobid(job)] = LiveJob(
                rule=job.rule.name,
                at_once=max(1, min((limits[name] // n for name, n in wanted.items()), default=1)),
                wildcards=dict(job.wildcards.items()),
                log="".join(map(str, job.log)),
                cores=job.threads,
                needs=tuple(dag.jobid(needed) for needed in dag.dependencies[job]),
            )
    return jobs


def seconds(words: str) -> float:
    """Return the seconds of a duration in words, the inverse of `headspec.progress.duration`."""
    return sum(int(number) * UNITS[unit] for number, unit in re.findall(r"(\d+) (s|min|h)", words))


@dataclass
class Jobs:
    """All jobs of a run by their ids."""

    jobs: dict[int, LiveJob]
    begun: float  #: time in seconds
    failed: list[int] = field(default_factory=list)
    counted: bool = False  #: whether the operations of jobs are known

    def start(self, job_id: int, name: str | None, now: float) -> LiveJob | None:
        """Note that a job starts, perhaps again, and return it; None for a target, which has no job."""
        if job := self.jobs.get(job_id):
            self.failed = [other for other in self.failed if other != job_id]
            job.begun, job.name = now, name or job.rule
        return job

    def finish(self, job_id: int, now: float) -> LiveJob | None:
        """Note that a job has finished, and return it; None if it is unknown."""
        if job := self.jobs.get(job_id):
            job.taken = now - (now if job.begun is None else job.begun)
        return job

    def fail(self, job_id: int) -> LiveJob | None:
        """Note that a job has failed, and return it; None if it is unknown or has already failed."""
        job = self.jobs.get(job_id)
        if job is None or job_id in self.failed:
            return None
        self.failed.append(job_id)
        job.begun = None
        return job

    def count(self, operations: Iterable[float | None]) -> None:
        """Set the operations of all jobs, in order."""
        for job, each in zip(self.jobs.values(), operations, strict=True):
            job.operations = each
        self.counted = True

    @property
    def running(self) -> list[LiveJob]:
        return [job for job in self.jobs.values() if job.begun is not None and job.taken is None]

    @property
    def finished(self) -> int:
        return sum(job.taken is not None for job in self.jobs.values())

    @property
    def lost(self) -> set[int]:
        """The ids of jobs that cannot run, because they need a job that failed."""
        lost = set(self.failed)
        size = -1
        while len(lost) > size:
            size = len(lost)
            lost |= {id for id, job in self.jobs.items() if not lost.isdisjoint(job.needs)}
        return lost - set(self.failed)

    def forecast(self, now: float) -> Forecast:
        """Return what is done and left of jobs that can still run; `wall` only once operations are known."""
        lost = self.lost.union(self.failed)
        expected = forecast({id: job for id, job in self.jobs.items() if id not in lost}, now)
        return expected if self.counted else replace(expected, wall=None)
