"""The jobs of a run of the workflow: which wait, run, have finished, and cannot run any more."""

import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headspec.live.forecast import Forecast, LiveJob, forecast

#: a line of `headspec.progress.Progress`
PROGRESS = re.compile(r"(\d+) %, \d+ of \d+ .*?(?:(\d[^,]*) left|took [^,;]*)[^;]*(?:; (.*))?")
UNITS = {"s": 1, "min": 60, "h": 3600}
END = 4096  # bytes of a log that are read


def read_log(job: LiveJob, now: float) -> None:
    """Take over what the end of a job's log says, unless an earlier attempt wrote it."""
    job.percent = job.left = None
    job.told = ""
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
        job.percent, job.told = int(match[1]), match[3] or ""
        job.left = max(seconds(match[2] or "0 s") - age, 0.0)


def planned(dag: Any, limits: Mapping[str, int]) -> dict[int, LiveJob]:
    """Return the jobs with outputs that Snakemake will run, by id; `limits` are resources that jobs share."""
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
        """Return the job that starts, perhaps once more; None for a target, which has no job."""
        if job := self.jobs.get(job_id):
            self.failed = [other for other in self.failed if other != job_id]
            job.begun, job.name = now, name or job.rule
        return job

    def finish(self, job_id: int, now: float) -> LiveJob | None:
        """Return the job that has finished."""
        if job := self.jobs.get(job_id):
            job.taken = now - (now if job.begun is None else job.begun)
        return job

    def fail(self, job_id: int) -> LiveJob | None:
        """Return the job that has failed; None also if this is known."""
        job = self.jobs.get(job_id)
        if job is None or job_id in self.failed:
            return None
        self.failed.append(job_id)
        job.begun = None
        return job

    def count(self, operations: Iterable[float | None]) -> None:
        """Take over the operations of all jobs, in their order."""
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
        """Return ids of jobs that cannot run, because they need one that failed."""
        lost = set(self.failed)
        size = -1
        while len(lost) > size:
            size = len(lost)
            lost |= {id for id, job in self.jobs.items() if not lost.isdisjoint(job.needs)}
        return lost - set(self.failed)

    def forecast(self, now: float) -> Forecast:
        """Return what is done and left of jobs that can still run; no time before operations are known."""
        lost = self.lost.union(self.failed)
        expected = forecast({id: job for id, job in self.jobs.items() if id not in lost}, now)
        return expected if self.counted else replace(expected, wall=None)
