"""Extractive question answering, from a context."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headspec.tasks.kind import Kind

if TYPE_CHECKING:
    from headspec.tasks.keys import TaskKeys


class Answer(Kind):
    about = "the answer to a [question](tasks-and-models.md#questions) in a context, if any"
    called = "of questions"
    metrics = ("answer_f1", "answer_exact_match")
    defaults = {"text_a": "question", "text_b": "context", "label": "answers"}
    unused = ("labels", "test")
    refuses = frozenset({"prompted", "transfer", "resample"})
    pooled = False
    several = ("F1 of no answer, which is also its exact match", "F1 and exact match")

    def problems(self, key: str, task: TaskKeys) -> Iterator[str]:
        """Yield a problem for questions without a context."""
        if task.text_b is None:
            yield f"{key}.text_b: missing, expected the column of the contexts that answers are in."


KIND = Answer()
