"""Types of tasks on words by name, imported when a task needs them."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from headspec.tasks.words.base import WordTask


def implementation(name: str) -> WordTask:
    """The type `name`, one of `headspec.tasks.words.word_types.TYPES`."""
    return cast(WordTask, import_module(f"headspec.tasks.{name}.units").TASK)
