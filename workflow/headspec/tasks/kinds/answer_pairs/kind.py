"""Which of two answers to a prompt is likelier."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headspec.tasks import prompt_keys
from headspec.tasks.kinds.continuations.kind import Pairs

if TYPE_CHECKING:
    from headspec.config.sections.task import Task


class AnswerPairs(Pairs):
    about = "which of two answers to a prompt is likelier, for `prompted`"
    called = "of type answer_pairs"
    defaults = {"label": ["right", "wrong"]}
    label_columns = 2

    def prompt_problems(self, key: str, task: Task) -> Iterator[str]:
        if task.prompt is None:
            yield f"{key}.prompt: missing, expected the text that right and wrong answers follow."
            yield from prompt_keys.without_prompt(key, task)
            return
        yield from prompt_keys.fields(key, task)
        if prompt_keys.masked(task.prompt):
            yield f"{key}.prompt: got the field '{{mask}}', expected none in a task of {task.type}."
        yield from prompt_keys.unused(key, task, "answers", "calibration")


KIND = AnswerPairs()
