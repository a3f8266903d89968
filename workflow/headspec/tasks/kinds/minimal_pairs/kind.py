"""Which of two texts is likelier (Warstadt et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headspec.tasks import prompt_keys
from headspec.tasks.kinds.continuations.kind import Pairs

if TYPE_CHECKING:
    from headspec.config.sections.task import Task


class MinimalPairs(Pairs):
    about = "which of two texts is [likelier](tasks-and-models.md#pairs), for `prompted`"
    called = "of type minimal_pairs"
    defaults = {"text_a": "sentence_good", "text_b": "sentence_bad"}
    label_columns = 0

    def problems(self, key: str, task: Task) -> Iterator[str]:
        yield from super().problems(key, task)
        if task.text_b is None:
            yield f"{key}.text_b: missing, expected the column of the text that is less acceptable."

    def prompt_problems(self, key: str, task: Task) -> Iterator[str]:
        return prompt_keys.unused(key, task, *prompt_keys.KEYS)


KIND = MinimalPairs()
