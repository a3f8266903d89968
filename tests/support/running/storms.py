"""Studies that are killed at random moments, again and again, and disks that fill up or become read-only."""

import contextlib
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil

from support.running.faults import at_work, until
from support.running.studies import Folder

VICTIMS = ["scheduler", "job", "both"]


class Run:
    """A running `snakemake`, its output and its processes, which are forks (`support.running.warm`)."""

    def __init__(self, study: Folder, *targets: str) -> None:
        self.study, self.lines = study, []
        self.process = study.start(*targets)
        self.begun = psutil.Process(self.process.pid).create_time()
        # its pipe stays open for the jobs that it leaves behind
        self.reader = threading.Thread(target=lambda: self.lines.extend(self.process.stdout), daemon=True)
        self.reader.start()

    @property
    def output(self) -> str:
        return "".join(self.lines)

    def ended(self) -> bool:
        return self.process.poll() is not None

    def wait(self) -> int:
        """The exit status, once no process of the study is left."""
        status = self.process.wait()
        until(lambda: not at_work(self.study.path))
        self.reader.join()
        return status

    def until(self, changes: int, seconds: float) -> bool:
        """Wait for `changes` changed files, and `seconds` more; False if the run ends before."""
        before = files(self.study)
        until(lambda: self.ended() or len(files(self.study) - before) >= changes)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        return not self.ended()

    def kill(self, victim: str, rng: np.random.Generator) -> str:
        """Kill the scheduler, a job (the scheduler if none runs), or all of them; returns who was killed."""
        until(lambda: victim != "job" or len([*forks_of(self.study)]) >= 2 or self.ended())
        forks = sorted(forks_of(self.study), key=lambda process: process.create_time())
        scheduler = next((fork for fork in forks if fork.create_time() >= self.begun), None)
        jobs = [fork for fork in forks if fork != scheduler]
        if victim == "job" and jobs:
            killed = [jobs[rng.integers(len(jobs))]]
        else:
            victim = "scheduler" if victim == "job" else victim
            killed = [psutil.Process(self.process.pid), *([scheduler] if scheduler else [])]
            killed += at_work(self.study.path) if victim == "both" else []
        for process in killed:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        if victim != "job":
            self.process.wait()
        return victim


def forks_of(study: Folder) -> Iterator[psutil.Process]:
    """The processes that run Snakemake or a job, without those that wait for them."""
    for process in at_work(study.path):
        with contextlib.suppress(psutil.NoSuchProcess):  # it ended meanwhile
            if "serve" in process.cmdline():
                yield process


def files(study: Folder) -> set[tuple[str, int]]:
    """Files of the results, each with its time."""
    found = set()
    for folder, _, names in os.walk(study.results):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                found.add((name, os.stat(os.path.join(folder, name)).st_mtime_ns))
    return found


def storm(
    study: Folder, targets: tuple[str, ...], kills: int, changes: int, rng: np.random.Generator
) -> dict[str, int]:
    """Kill `kills` times, on average after `changes` changed files; then let the study end.

    A study that ends before loses its runs.

    Returns
    -------
    counts : number of kills by victim
    """
    counts = dict.fromkeys(VICTIMS, 0)
    run = Run(study, *targets)
    while (killed := sum(counts.values())) < kills:
        victim = VICTIMS[killed % len(VICTIMS)]
        # a fifth of the moments are while Snakemake starts, where there is no job yet
        starts = victim != "job" and rng.random() < 0.2
        moment = 0 if starts else 1 + int(rng.exponential(changes))
        if not run.until(moment, rng.uniform(0, 3 if moment == 0 else 0.5)):
            if run.process.returncode == 0:
                shutil.rmtree(study.results / "runs", ignore_errors=True)  # none yet, of a short one
            run = Run(study, *targets)
            continue
        victim = run.kill(victim, rng)
        counts[victim] += 1
        print(f"{killed + 1}: {victim} after {moment} files", flush=True)
        if victim != "job":
            run = Run(study, *targets)
    run.wait()
    study.snakemake(*targets)
    return counts


@contextlib.contextmanager
def own_disk(folder: Path, megabytes: int) -> Iterator[None]:
    """A small disk of its own at `folder`, with what was there."""
    kept = folder.with_name(f"{folder.name}.kept")
    folder.rename(kept)
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "none", folder], check=True)
    try:
        subprocess.run(["cp", "-a", f"{kept}/.", folder], check=True)
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextlib.contextmanager
def full(folder: Path) -> Iterator[None]:
    """The disk of `folder` is full."""
    filler = folder / "filler"
    with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    try:
        yield
    finally:
        filler.unlink()


@contextlib.contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """`folder` is read-only from one moment on.

    A mount through which a job writes cannot become read-only, so one that no job knows is laid over it.
    """
    aside = folder.with_name(f"{folder.name}.aside")
    aside.mkdir()
    subprocess.run(["mount", "--bind", folder, aside], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", aside], check=True)
        subprocess.run(["mount", "--bind", aside, folder], check=True)
    finally:
        subprocess.run(["umount", aside], check=True)
        aside.rmdir()
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


DISKS: dict[str, tuple[Callable[[Path], contextlib.AbstractContextManager[None]], str]] = {
    "full": (full, "No space left on device"),
    "read-only": (read_only, "Read-only file system"),
}
