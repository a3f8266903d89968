"""Checks of a model's keys against each other and against the tasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headspec.config.checks.task_consistency import source_problems
from headspec.tasks.kinds import kind

if TYPE_CHECKING:
    from headspec.config.sections.model import Model, Transformer
    from headspec.config.sections.task import Task

#: what a model with fresh weights has not
OF_SOURCES = ("sha256", "weights", "pooling", "heads")


def problems(key: str, model: Model, tasks: dict[str, Task | None]) -> Iterator[str]:
    """Problems of one model; of `tasks`, those that cannot be read are None."""
    named = "source" in model.model_fields_set
    if named == (model.transformer is not None):
        yield f"{key}: got {'both' if named else 'neither'}, expected one of source and transformer."
    if named:
        yield from source_problems(key, model.source)
    elif model.transformer:
        yield from _sizes(f"{key}.transformer", model.transformer)
        for setting in OF_SOURCES:
            if setting in model.model_fields_set:
                yield f"{key}.{setting}: has no effect with transformer; expected none."
        for name, task in tasks.items():
            if task:
                yield from kind(task).described_problems(f"tasks.{name}", task, key)


def _sizes(key: str, sizes: Transformer) -> Iterator[str]:
    if sizes.hidden % sizes.heads:
        yield f"{key}.hidden: got {sizes.hidden}, expected a multiple of heads, {sizes.heads}."
