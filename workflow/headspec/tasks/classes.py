"""What is told apart in a task: `Classes`, which tables and models keep, and by which they know its kind."""

from __future__ import annotations

from typing import Any

#: class names of a task; None for regression; of a task on words its `type` and `labels`, as of one whose
#: continuations are scored; none in the data of pairs, which have no classes; of translation its `type` and
#: how texts are written (`headspec.tasks.translation.classes`)
Classes = list[str] | dict[str, Any] | None


def type_of(classes: Classes) -> str:
    """The type of a task by its classes; those of data of pairs are as of classification."""
    if classes is None:
        return "regression"
    return str(classes["type"]) if isinstance(classes, dict) else "classification"
