"""How far a long stage is: plain lines with the rate and the time left."""

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
    """A job: log lines, each beginning with `label`, go to the terminal and to `log_file`.

    An error that the user can mend ends the job with its message alone.
    """
    handlers: list[logging.Handler] = [
        logging.StreamHandler(sys.stderr),
        logging.FileHandler(log_file, mode="w"),
    ]
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
    """A line every `interval` seconds: ``40 %, 1280 of 3200 examples, 65 a second, 30 s left``."""

    def __init__(self, total: int, unit: str, interval: float = 10.0) -> None:
        self.total, self.unit, self.interval = total, unit, interval
        self.done = self.resumed = 0
        self.begun = self.said = time.monotonic()

    def resume(self, done: int) -> None:
        """`done` units were finished by an earlier process."""
        self.done = self.resumed = done

    def advance(self, n: int, note: str = "") -> None:
        self.done += n
        now = time.monotonic()
        if now - self.said < self.interval and self.done < self.total:
            return
        self.said = now
        rate = (self.done - self.resumed) / max(now - self.begun, 1e-9)
        left = (self.total - self.done) / max(rate, 1e-9)
        time_left = f"{duration(left)} left" if left >= 0.5 else f"took {duration(now - self.begun)}"
        line = f"{100 * self.done // self.total:3d} %, {self.done} of {self.total} {self.unit}, "
        log.info("%s", line + ", ".join(filter(None, [f"{rate:.0f} a second", time_left, note])))


def duration(seconds: float) -> str:
    """Seconds as people say them: ``45 s``, ``3 min 20 s``, ``2 h 5 min``."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"
