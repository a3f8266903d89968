"""Texts that several tasks of a study share."""

from functools import cache
from typing import Any

from headspec.config.runs import Run
from headspec.config.sources import identity
from headspec.data import tasks_read
from headspec.pipeline.jobs.job import Job
from headspec.pipeline.layout import Layout


def text_sources(job: Job, runs: list[Run]) -> dict[str, str]:
    """Return the tasks of `runs` that share texts, {task: task with the texts}."""
    shared = _shared_texts(job.layout)
    used = {name for run in runs for name in run.tasks} if shared else set()
    return {each: source for name, source in shared.items() if name in used for each in (source, name)}


@cache
def _shared_texts(layout: Layout) -> dict[str, str]:
    """Return the task whose texts each other task shares."""
    first: dict[tuple[Any, ...], str] = {}  # the first task of a source
    shared = {}
    for name, each in layout.study.tasks.items():
        if each.pairs_of:
            continue
        if (source := first.setdefault((identity(str(each.source)), each.subset), name)) != name:
            shared[name] = source
    for name, each in layout.study.tasks.items():
        if each.pairs_of:
            shared[name] = shared.get(each.pairs_of, each.pairs_of)
    return shared


def leaks(job: Job) -> dict[str, list[int]]:
    """Return, by other task, the keys of a task's training rows on which the other is evaluated."""
    return {other: rows for other, rows in _leaks(job.layout)[job.wildcards.task].items() if rows is not None}


def unread_leaks(job: Job) -> list[str]:
    """Return the other tasks whose evaluation rows only the job can compare."""
    return [other for other, rows in _leaks(job.layout)[job.wildcards.task].items() if rows is None]


@cache
def _leaks(layout: Layout) -> dict[str, dict[str, list[int] | None]]:
    return tasks_read.leaks(layout.study, layout.tasks_read or tasks_read.prepare_tasks(layout.study))
