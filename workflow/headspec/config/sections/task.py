"""The section `tasks`."""

import copy
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, create_model, model_validator
from pydantic.fields import FieldInfo

from headspec.config.checks import prompt_keys
from headspec.config.sections.task_keys import TaskKeys
from headspec.tasks.kinds import KINDS

#: keys of evaluations, and of the method `prompted`, on which the tables of a task do not depend
LATER = {"metrics", *prompt_keys.KEYS, *(key for kind in KINDS.values() for key in kind.evaluated)}


def metrics() -> list[str]:
    """Return the metrics of all kinds of tasks."""
    return [*dict.fromkeys(metric for kind in KINDS.values() for metric in kind.metrics)]


def _defaults(key: str) -> str:
    """Return the default columns of a key for types of tasks that have unusual ones."""
    by_column: dict[str, list[str]] = {}
    for name, kind in KINDS.items():
        if key in kind.defaults:
            columns = kind.defaults[key]
            written = columns if isinstance(columns, str) else ", ".join(columns)
            by_column.setdefault(written, []).append(f"`{name}`")
    return ", ".join(f"`{columns}` ({', '.join(names)})" for columns, names in by_column.items())


def _described(key: str, more: str) -> tuple[Any, FieldInfo]:
    """Return a key of all types with `more` in its description."""
    field = copy.copy(TaskKeys.model_fields[key])
    field.description = f"{field.description}{more}"
    return field.annotation, field


class _Task(TaskKeys):
    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _columns_of_type(cls, values: Any) -> Any:
        """Set the default columns of a task's type."""
        name = str(values.get("type")) if isinstance(values, dict) else ""
        return {**KINDS[name].defaults, **values} if name in KINDS else values


if TYPE_CHECKING:
    from headspec.config.sections.task_keys import (
        TaskKeys as Task,  # with keys that type checkers do not know
    )
else:
    _types = "; ".join(f"`{name}`: {kind.about}" for name, kind in KINDS.items())
    Task = create_model(
        "Task",
        __base__=_Task,
        __doc__="A labelled data set.",
        __module__=__name__,
        type=_described("type", f": {_types}"),
        **{
            key: _described(key, f"; other defaults: {_defaults(key)}")
            for key in ("text_a", "text_b", "label")
        },
        **{key: field for kind in KINDS.values() for key, field in kind.keys.items()},
    )
