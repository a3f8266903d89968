"""Language modelling, causal or masked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headspec.tasks import prompt_checks
from headspec.tasks.kind import Kind

if TYPE_CHECKING:
    from headspec.tasks.keys import TaskKeys


class Text(Kind):
    about = "the [text](tasks-and-models.md#language-modelling) itself, as a language model"
    called = "of language modelling"
    metrics = ("token_accuracy", "bits_per_token", "bits_per_byte")
    beside = frozenset({"bits_per_token", "bits_per_byte"})  # they fall where models are better
    several = ("tokens; bytes; right tokens and bits of the guess", "right tokens; bits")
    label_columns = 0
    unused = ("text_b", "labels", "test")
    refuses = frozenset({"transfer"})
    prompts = needs_prompt = pooled = False

    def prompt_problems(self, key: str, task: TaskKeys) -> Iterator[str]:
        """Yield problems of prompt keys, which a language model does not need to predict texts."""
        return prompt_checks.unused(key, task, *prompt_checks.KEYS)


TEXT_KIND = Text()
