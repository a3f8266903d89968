"""What a task tells apart: `Classes`, which tables and models keep, and which say its kind."""

from __future__ import annotations

from typing import Any

#: class names, which are empty in the data of pairs; None for regression; for other kinds `type` and more,
#: such as `labels` of words and continuations, or the keys in `headspec.tasks.translation.classes`
Classes = list[str] | dict[str, Any] | None


def type_of(classes: Classes) -> str:
    """Return the type of a task; data of pairs have classes as for classification."""
    if classes is None:
        return "regression"
    return str(classes["type"]) if isinstance(classes, dict) else "classification"
