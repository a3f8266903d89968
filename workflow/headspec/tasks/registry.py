"""The `Kind` of each kind of task, for configs; loaded neither by jobs nor by a new kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headspec.registry import Registry
from headspec.tasks.kind import Kind
from headspec.tasks.parts import load_part

if TYPE_CHECKING:
    from headspec.tasks.keys import TaskKeys

#: in the order of the reference
NAMES = (
    "classification", "regression", "translation", "answer", "text", "minimal_pairs", "answer_pairs",
    "generation", "tags", "spans", "dependencies", "constituents", "roles", "labels",
)  # fmt: skip
KINDS: Registry[Kind] = Registry("type of task", {name: load_part(name, "KIND") for name in NAMES})


def metric_names() -> list[str]:
    """Return the metrics of all kinds of tasks."""
    return [*dict.fromkeys(metric for kind in KINDS.values() for metric in kind.metrics)]


def kind(task: TaskKeys) -> Kind:
    """Return the kind of a task."""
    return KINDS[task.type]
