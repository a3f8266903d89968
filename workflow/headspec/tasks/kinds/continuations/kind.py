"""The likelier of two continuations: texts (Warstadt et al. 2020), or answers to a prompt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headspec.tasks import prompt_checks
from headspec.tasks.kind import Kind

if TYPE_CHECKING:
    from headspec.tasks.keys import TaskKeys


class Pairs(Kind):
    metrics = ("pair_accuracy", "logit_difference")
    beside = frozenset({"logit_difference"})  # it has no scale
    trained = needs_prompt = pooled = False
    refuses = frozenset({"transfer"})


class MinimalPairs(Pairs):
    about = "which of two texts is [likelier](tasks-and-models.md#pairs), for `prompted`"
    called = "of type minimal_pairs"
    defaults = {"text_a": "sentence_good", "text_b": "sentence_bad"}
    label_columns = 0

    def problems(self, key: str, task: TaskKeys) -> Iterator[str]:
        yield from super().problems(key, task)
        if task.text_b is None:
            yield f"{key}.text_b: missing, expected the column of the text that is less acceptable."

    def prompt_problems(self, key: str, task: TaskKeys) -> Iterator[str]:
        return prompt_checks.unused(key, task, *prompt_checks.KEYS)


MINIMAL_PAIRS_KIND = MinimalPairs()


class AnswerPairs(Pairs):
    about = "which of two answers to a prompt is likelier, for `prompted`"
    called = "of type answer_pairs"
    defaults = {"label": ["right", "wrong"]}
    label_columns = 2

    def prompt_problems(self, key: str, task: TaskKeys) -> Iterator[str]:
        if task.prompt is None:
            yield f"{key}.prompt: missing, expected the text that right and wrong answers follow."
            yield from prompt_checks.without_prompt(key, task)
            return
        yield from prompt_checks.fields(key, task)
        if prompt_checks.masked(task.prompt):
            yield f"{key}.prompt: got the field '{{mask}}', which no task of {task.type} has; remove it."
        yield from prompt_checks.unused(key, task, "answers", "calibration")


ANSWER_PAIRS_KIND = AnswerPairs()
