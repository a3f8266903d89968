"""Logging of a stage, and its progress: percentage, rate and time left."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from headspec.errors import HeadspecError

log = logging.getLogger("headspec")


@contextmanager
def stage(log_file: str, label: str) -> Iterator[None]:
    """Run a job's code; log lines go to `log_file`, where the view of the run reads them.

    Warnings and errors also go to the terminal, starting with `label`. A HeadspecError ends the job with its
    message only, any other error with a traceback.
    """
    terminal = logging.StreamHandler(sys.stderr)
    terminal.setLevel(logging.WARNING)
    handlers: list[logging.Handler] = [terminal, logging.FileHandler(log_file, mode="w")]
    logging.basicConfig(level=logging.INFO, format=f"{label}  %(message)s", handlers=handlers, force=True)
    for noisy in ("httpx", "datasets", "filelock", "fsspec"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    try:
        yield
    except HeadspecError as error:
        log.error("%s", error)
        sys.exit(1)
    except Exception:
        log.exception("failed")
        sys.exit(1)


class Progress:
    """Logs a line every `interval` seconds: ``40 %, 1280 of 3200 examples, 65 a second, 30 s left``."""

    def __init__(self, total: int, unit: str, interval: float = 10.0) -> None:
        self.total, self.unit, self.interval = total, unit, interval
        self.done = self.resumed = 0
        self.begun = self.logged = time.monotonic()

    def resume(self, done: int) -> None:
        """Count `done` units that an earlier process finished; the rate leaves them out."""
        self.done = self.resumed = done

    def advance(self, n: int, note: str = "") -> None:
        self.done += n
        now = time.monotonic()
        if now - self.logged < self.interval and self.done < self.total:
            return
        self.logged = now
        rate = (self.done - self.resumed) / max(now - self.begun, 1e-9)
        left = (self.total - self.done) / max(rate, 1e-9)
        time_left = f"{duration(left)} left" if left >= 0.5 else f"took {duration(now - self.begun)}"
        line = f"{100 * self.done // self.total:3d} %, {self.done} of {self.total} {self.unit}, "
        log.info("%s", line + ", ".join(filter(None, [f"{rate:.0f} a second", time_left, note])))


def duration(seconds: float) -> str:
    """Seconds in words: ``45 s``, ``3 min 20 s``, ``2 h 5 min``."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"
