"""The section `tasks`."""

import copy
from typing import TYPE_CHECKING, Annotated, Any, get_args

from pydantic import ConfigDict, create_model, model_validator
from pydantic.fields import FieldInfo

from headspec.sections import NUMBER, Distinct, OneOf, Section
from headspec.tasks import prompt_checks, registry
from headspec.tasks.keys import TaskKeys
from headspec.tasks.registry import KINDS


def _defaults(key: str) -> str:
    """Return a key's default columns for types of tasks where they differ from the usual ones."""
    by_column: dict[str, list[str]] = {}
    for name, kind in KINDS.items():
        if key in kind.defaults:
            columns = kind.defaults[key]
            written = columns if isinstance(columns, str) else ", ".join(columns)
            by_column.setdefault(written, []).append(f"`{name}`")
    return ", ".join(f"`{columns}` ({', '.join(names)})" for columns, names in by_column.items())


def _described(key: str, more: str = "", annotation: Any = None) -> tuple[Any, FieldInfo]:
    """Return a key of all types, with `more` added to its description, and another annotation if given."""
    field = copy.copy(TaskKeys.model_fields[key])
    field.description = f"{field.description}{more}"
    return annotation or field.annotation, field


Type = Annotated[str, OneOf(KINDS, plugged=True)]
Metric = Annotated[str, OneOf(registry.metric_names, plugged=True)]


class _Task(TaskKeys):
    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_type(cls, values: Any) -> Any:
        """Set the default columns and metrics for a task's type."""
        name = values.get("type", cls.model_fields["type"].default) if isinstance(values, dict) else None
        if not isinstance(name, str) or name not in KINDS:
            return values
        kind = KINDS[name]
        return {"metrics": [*(kind.usual or kind.metrics)], **kind.defaults, **values}


def _keys_of_kinds() -> dict[str, tuple[Any, FieldInfo]]:
    keys = {key: field for kind in KINDS.values() for key, field in kind.keys.items()}
    return {key: (_number(annotation), field) for key, (annotation, field) in keys.items()}


def _number(annotation: Any) -> Any:
    """Return the type of a key; numbers are parsed like those of other keys."""
    types = {annotation, *get_args(annotation)}
    return Annotated[annotation, NUMBER] if types & {int, float} and str not in types else annotation


if TYPE_CHECKING:
    Task = TaskKeys  # with keys that type checkers do not know
else:
    _types = "; ".join(f"`{name}`: {kind.about}" for name, kind in KINDS.items())
    Task = create_model(
        "Task",
        __base__=_Task,
        __doc__="A labelled data set.",
        __module__=__name__,
        type=_described("type", f": {_types}", Type),
        metrics=_described("metrics", annotation=Distinct[Metric]),
        **{
            key: _described(key, f"; other defaults: {_defaults(key)}")
            for key in ("text_a", "text_b", "label")
        },
        **_keys_of_kinds(),
    )


#: keys of tasks besides those of all types
_given = _keys_of_kinds()


def renew_keys(*holders: type[Section]) -> None:
    """Update tasks, and the sections that hold tasks, to the keys of the current types."""
    global _given
    keys, fields = _keys_of_kinds(), Task.__pydantic_fields__
    if keys == _given:
        return
    for key in _given:
        del fields[key]
    fields |= {key: FieldInfo.from_annotated_attribute(*definition) for key, definition in keys.items()}
    _given = keys
    sections: tuple[type[Section], ...] = (Task, *holders)
    for section in sections:
        section.model_rebuild(force=True)


def determinants(task: Task, *without: str) -> dict[str, Any]:
    """Return the keys of a task that affect its tables, without those of other types and `without`."""
    own = registry.kind(task).keys.keys() - registry.kind(task).evaluated
    others = _keys_of_kinds().keys() - own
    return task.model_dump(exclude={"metrics", *prompt_checks.KEYS, *others, *without})
