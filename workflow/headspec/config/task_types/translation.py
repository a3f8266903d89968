"""The type of tasks whose label is a text that the model writes: translation, or any text to any text."""

from __future__ import annotations

from typing import Any, TypeGuard

NAME = "translation"
#: metrics that a task may have, the default first
METRICS = ("chrf", "bleu", "exact_match")
#: keys of a task that only this type has: those that its `Classes` keep, and those of evaluations
KEYS = ("prefix", "source_language", "target_language")
EVALUATED = ("beams",)


def is_translation(classes: Any) -> TypeGuard[dict[str, Any]]:
    """Whether the `Classes` of a task are those of this type."""
    return isinstance(classes, dict) and classes["type"] == NAME
