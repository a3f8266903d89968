"""Logging of a stage, and its progress: percentage, rate and time left."""

import json
import logging
import sys
import time
from bdb import BdbQuit
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headspec.errors import HeadspecError, ScoreError
from headspec.provenance import hashes
from headspec.provenance.files import storage_error
from headspec.provenance.guard import unchanged
from headspec.provenance.usage import recorded
from headspec.redaction import redacted

log = logging.getLogger("headspec")


@contextmanager
def stage(job: Any, label: str) -> Iterator[None]:
    """Run a job's code, record its usage, and check that its code and inputs stay unchanged.

    Messages, each after `label`, go to the job's log; warnings and errors also go to the terminal. An error
    ends the job with status 1; a HeadspecError, or a full or read-only disk, does so without a traceback.
    """
    try:
        terminal = logging.StreamHandler(sys.stderr)
        terminal.setLevel(logging.WARNING)
        handlers: list[logging.Handler] = [terminal, logging.FileHandler(job.log[0], mode="w")]
        for handler in handlers:
            handler.setFormatter(Redacting(f"{label}  %(message)s"))
        logging.basicConfig(level=logging.INFO, handlers=handlers, force=True)
        for noisy in ("httpx", "datasets", "filelock", "fsspec"):
            logging.getLogger(noisy).setLevel(logging.WARNING)
        with recorded(job), unchanged(job):
            yield
        hashes.keep([*job.input, *job.output])
    except HeadspecError as error:
        log.error("%s", error)
        if isinstance(error, ScoreError) and error.texts:
            _keep(error.texts, Path(job.log[0]).with_suffix(".texts.jsonl"))
        sys.exit(1)
    except BdbQuit:
        log.error("left at a breakpoint; `headspec debug <result>` stops there in a terminal")
        sys.exit(1)
    except Exception as error:
        if problem := storage_error(error):
            log.error("%s", problem)
        else:
            log.exception("failed")
        sys.exit(1)


def _keep(texts: Sequence[tuple[int, str]], path: Path) -> None:
    """Write the texts of a failed job to `path`, because they took long to write."""
    lines = [json.dumps({"example": int(i), "text": text}, ensure_ascii=False) + "\n" for i, text in texts]
    path.write_text("".join(lines), encoding="utf-8")
    log.error("the %d texts written so far, in order, are in %s", len(lines), path)


class Redacting(logging.Formatter):
    """Formatter that hides secrets, also in tracebacks."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record, without secrets."""
        return redacted(super().format(record))


class Progress:
    """Log a line like ``40 %, 1280 of 3200 examples, 65 a second, 30 s left``.

    There are at least `interval` seconds between lines, and a line at the end.
    """

    def __init__(self, total: int, unit: str, interval: float = 10.0) -> None:
        self.total, self.unit, self.interval = total, unit, interval
        self.done = self.resumed = 0
        self.begun = self.logged = time.monotonic()

    def resume(self, done: int) -> None:
        """Count `done` units that an earlier process finished, but leave them out of the rate."""
        self.done = self.resumed = done

    def advance(self, n: int, note: str = "") -> None:
        """Count `n` more units; a line that is due ends with `note`."""
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
    """Return seconds in words: ``45 s``, ``3 min 20 s``, ``2 h 5 min``."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"
