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

#: folders of `headspec.tasks.kinds`, in the order of the reference
NAMES = (
    "classification",
    "regression",
    "translation",
    "answer",
    "text",
    "minimal_pairs",
    "answer_pairs",
    "tags",
    "spans",
    "dependencies",
    "constituents",
    "roles",
    "labels",
)
KINDS = Registry[Kind]("type of task")
KINDS |= {name: import_module(f"{PACKAGE}.{name}.kind").KIND for name in NAMES}


def counts(task: Task) -> Counts:
    """Return how planning counts the tokens of a task."""
    return cast("Counts", load_part(task.type, "COUNTS"))


def kind(task: Task) -> Kind:
    """Return the kind of a task."""
    return KINDS[task.type]
