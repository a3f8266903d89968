"""The part ``units.py`` of kinds of tasks on words: their annotation. It is imported when a task needs it."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from headspec.tasks.words.base import WordTask


def implementation(name: str) -> WordTask:
    """The annotation of tasks of a type."""
    return cast(WordTask, import_module(f"headspec.tasks.{name}.units").TASK)
