"""The list of kinds of tasks; jobs do not import it, so that a new kind does not change their code."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from headspec.registry import Registry
from headspec.tasks.kind import Kind
from headspec.tasks.parts import PACKAGE, load_part

if TYPE_CHECKING:
    from headspec.config.sections.task import Task
    from headspec.tasks.kinds.texts.counts import Counts

#: kinds in the order of the reference, and their folders in `headspec.tasks.kinds`
FOLDERS = {
    "classification": "texts",
    "regression": "texts",
    "translation": "translation",
    "answer": "answer",
    "text": "text",
    "minimal_pairs": "continuations",
    "answer_pairs": "continuations",
    "tags": "words",
    "spans": "words",
    "dependencies": "words",
    "constituents": "words",
    "roles": "words",
    "labels": "texts",
}


def _kind(name: str, folder: str) -> Kind:
    module = vars(import_module(f"{PACKAGE}.{folder}.kind"))
    kind: Kind = module["KIND" if folder == name else f"{name}_KIND".upper()]
    return kind


KINDS = Registry("type of task", {name: _kind(name, folder) for name, folder in FOLDERS.items()})


def metric_names() -> list[str]:
    """Return the metrics of all kinds of tasks."""
    return [*dict.fromkeys(metric for kind in KINDS.values() for metric in kind.metrics)]


def counts(task: Task) -> Counts:
    """Return the counts of a task's tokens for planning."""
    return cast("Counts", load_part(task.type, "COUNTS"))


def kind(task: Task) -> Kind:
    """Return the kind of a task."""
    return KINDS[task.type]
