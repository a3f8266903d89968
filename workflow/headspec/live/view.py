"""The view of a run in place of Snakemake's log: live progress on a terminal, plain lines elsewhere.

It is not a logger plugin: Snakemake loads these only by an option or a profile, and a profile that names one
stops every `snakemake` whose Python lacks it.
"""

import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from textwrap import shorten
from typing import Any

from rich.console import RenderableType
from snakemake.logging import ColorizingTextHandler

from headspec.live.jobs import Jobs, live_jobs, read_log
from headspec.live.progress_display import Terminal, closing, picture, time_left, usable
from headspec.progress import duration

#: events of Snakemake that are not shown, or shown differently
EVENTS = (
    "workflow_started", "run_info", "resources_info", "job_started", "job_info", "shellcmd", "progress",
    "job_finished", "job_error", "group_info", "group_error",
)  # fmt: skip
#: prefixes of other messages that do not help the user
CHATTER = ("Select jobs to execute...", "Using shell: ", "Conda environments: ignored", "Elapsed time: ")
COUNTED_AFTER = 20.0  # seconds; the operations of shorter runs are not counted
READ_EVERY = 2.0  # seconds between reads of job logs, which may be on a shared file system
STOPPED = "Terminating processes on user request"  # what Snakemake says after Ctrl-C


class View(logging.Handler):
    """Replaces `plain`, Snakemake's terminal handler, which still shows errors and unknown messages."""

    def __init__(self, logger: logging.Logger, plain: ColorizingTextHandler) -> None:
        super().__init__()
        self.log, self.plain = logger, plain
        self.jobs: Jobs | None = None
        self.terminal: Terminal | None = None
        self.counting: subprocess.Popen[bytes] | None = None
        self.read = 0.0  # when logs were read
        self.stopped = False  # by Ctrl-C; what jobs say about it is left out
        self.state = threading.Lock()  # jobs and counting, which the terminal's thread reads as well
        logger.removeHandler(plain)
        logger.addHandler(self)

    def begin(self, study: str, workflow: Any, config: dict[str, Any]) -> None:
        """Start to show the run of a Snakemake workflow, unless `--debug` needs the terminal."""
        if workflow.execution_settings.debug:  # not known when the view was attached
            self._leave()
            return
        try:
            limits = workflow.scheduler.global_resources
            self.study, self.config = study, config
            self.cores = limits["_cores"] if workflow.local_exec else None
            self.jobs = Jobs(live_jobs(workflow.dag, limits), time.monotonic())
            if usable():
                self.terminal = Terminal(self._picture, self._give_up, color=not self.plain.nocolor)
            else:
                self._say(f"{study}: {len(self.jobs.jobs)} jobs")
        except Exception as error:
            self._give_up(error)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if not self._handled(record):
                self._pass_on(record)
        except Exception as error:
            self._give_up(error)
            self.plain.handle(record)

    def close(self) -> None:
        """End the view; lines on what was done and what failed remain."""
        try:
            self._end()
            jobs, self.jobs = self.jobs, None
            if jobs:
                for line in closing(self.study, jobs, time.monotonic()):
                    self._say(line)
        finally:
            super().close()

    def _handled(self, record: logging.LogRecord) -> bool:
        """Return whether the view deals with `record`, by showing or omitting it."""
        event = getattr(record, "event", None)
        message = str(record.msg)
        if message.startswith(STOPPED):
            self.stopped = True
            if self.terminal:
                self.terminal.mute()
        elif self.stopped:
            return not message.startswith("Complete log")
        elif event in EVENTS:
            if self.jobs:
                self._happened(event, record, self.jobs, time.monotonic())
            return True
        return record.levelno <= logging.INFO and message.startswith(CHATTER)

    def _happened(self, event: str, record: Any, jobs: Jobs, now: float) -> None:
        """Note an event of a job; print a line if there is no picture, or a cluster says why a job failed."""
        said = getattr(record, "rule_msg", None) if event == "job_error" else None
        with self.state:
            self._count(jobs, now)
            if event == "job_info" and (job := jobs.start(record.jobid, record.rule_msg, now)):
                line = f"started   {job.name}"
            elif event == "job_finished" and (job := jobs.finish(record.job_id, now)):
                rest = [f"{jobs.finished} of {len(jobs.jobs)} jobs", *time_left(jobs, now)]
                line = f"finished  {job.name} ({duration(job.taken or 0)}); {', '.join(rest)}"
            elif event == "job_error" and (job := jobs.fail(record.jobid)):
                line = f"failed    {job.name}, see {job.log}"
                line += f": {shorten(said, 300)}" if said else ""
            else:
                return
        if said or not self.terminal:
            self._say(f"{time.strftime('%H:%M:%S')}  {line}")

    def _picture(self, width: int, height: int) -> RenderableType:
        assert self.jobs
        with self.state:
            now = time.monotonic()
            self._count(self.jobs, now)
            if now - self.read > READ_EVERY:
                self.read = now
                for job in self.jobs.running:
                    read_log(job, now)
            return picture(self.study, self.jobs, self.cores, width, height, now)

    def _count(self, jobs: Jobs, now: float) -> None:
        """Count the operations of jobs in another process, and read its result when it ends."""
        if self.counting is None and now - jobs.begun > COUNTED_AFTER:
            study, self.counted = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115
            asked = [(job.rule, job.wildcards) for job in jobs.jobs.values()]
            study.write(json.dumps({"config": self.config, "jobs": asked}, default=str).encode())
            study.seek(0)
            self.counting = subprocess.Popen(
                [sys.executable, "-m", "headspec.cost.graph"],
                env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
                stdin=study, stdout=self.counted, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        elif self.counting and not jobs.counted and self.counting.poll() == 0:
            self.counted.seek(0)
            jobs.count(json.load(self.counted))

    def _say(self, line: str) -> None:
        if self.terminal:
            self.terminal.say(line)
        else:
            self.plain.stream.write(line + "\n")
            self.plain.flush()

    def _pass_on(self, record: logging.LogRecord) -> None:
        """Show `record` as Snakemake would."""
        if not self.terminal:
            self.plain.handle(record)
        elif self.plain.filter(record) and (text := self.plain.format(record)):
            self.terminal.say(self.plain.decorate(record, text))

    def _end(self) -> None:
        if self.terminal:
            self.terminal.close()
            self.terminal = None
        if self.counting:
            self.counting.kill()

    def _give_up(self, error: Exception) -> None:
        """Return to Snakemake's handler for the rest of the run, and say why."""
        if self._leave():
            self.log.warning(f"the view of the run ended with {error!r}; the run continues")

    def _leave(self) -> bool:
        """Return to Snakemake's handler for the rest of the run; return whether this is a change."""
        self._end()
        self.jobs = None
        if left := self in self.log.handlers:
            self.log.removeHandler(self)
            self.log.addHandler(self.plain)
        return left


def attach(logger: logging.Logger) -> View | None:
    """Return a view in place of Snakemake's handler for the terminal; None without one, as with a plugin."""
    plain = next((handler for handler in logger.handlers if isinstance(handler, ColorizingTextHandler)), None)
    return View(logger, plain) if plain else None
