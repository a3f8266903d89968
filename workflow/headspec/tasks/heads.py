"""Decoders by the type of task, imported when a task needs them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from headspec.tasks.words.head import Decoder


def decoder(task_type: str, hidden: int, labels: list[str]) -> Decoder:
    """An untrained decoder for a type of task on words.

    Parameters
    ----------
    hidden : size of the states of words
    labels : names of the labels, in order of their index
    """
    module = import_module(f"headspec.tasks.{task_type}.head")
    return cast("Decoder", module.build(hidden, labels))
