"""`Classes` of a task, which tables and models keep and which determine its kind."""

from typing import Any

#: class names, empty in the data of pairs; None for regression; for other kinds `type` and more,
#: such as `labels` of words and continuations, or the keys in `headspec.tasks.translation.classes`
Classes = list[str] | dict[str, Any] | None


def type_of(classes: Classes) -> str:
    """Return the type of a task; data of pairs have classes as in classification."""
    if classes is None:
        return "regression"
    return str(classes["type"]) if isinstance(classes, dict) else "classification"
