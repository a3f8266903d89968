"""Translation, or any other task in which the model writes texts."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import Field

from headspec.config.sections.base import Count
from headspec.errors import EncoderError
from headspec.tasks.kind import Kind
from headspec.tasks.translation.classes import BY_CHARACTER, TOKENIZERS, UNSPACED

if TYPE_CHECKING:
    from headspec.config.sections.model import Model
    from headspec.config.sections.task import Task


class Translation(Kind):
    about = "a text, by an encoder-decoder"
    called = "of translation"
    metrics = ("chrf", "bleu", "exact_match")
    keys = {
        "source_language": (
            str | None,
            Field(None, description="of translation by models with tokens of languages, such as `en_XX`"),
        ),
        "target_language": (str | None, Field(None, description="the same of the target")),
        "prefix": (
            str | None,
            Field(
                None,
                description="for translation: text before every source, such as T5's `translate English to "
                "German: `",
            ),
        ),
        "beams": (
            Count,
            Field(
                1,
                description="for translation: width of beam search in evaluations; 1: greedy",
            ),
        ),
    }
    evaluated = ("beams",)
    unused = ("text_b", "labels", "test")
    refuses = frozenset({"lora", "frozen", "prompted", "iat", "similarity"})
    training = {"label_smoothing": "a task of translation, whose targets it smooths"}
    pooled = False
    writes = True

    def described_problems(self, key: str, task: Any, model: str) -> Iterator[str]:
        """Yield problems of languages without a token in the vocabulary."""
        key, language = f"{key}.target_language", task.target_language
        expected = f"the language that {model} is told to write, such as 'de'"
        if language is None:
            yield f"{key}: missing, expected {expected}."
        elif not re.fullmatch(r"[\w-]+", language):
            yield f"{key}: got '{language}', expected {expected}: letters, digits, '_' and '-'."

    def notes(self, key: str, task: Task, classes: Any) -> Iterator[str]:
        """Yield a line where BLEU does not count words between spaces."""
        language = classes.get(UNSPACED)
        if language and "bleu" in self.all_metrics(task):
            by = TOKENIZERS.get(language, BY_CHARACTER)
            where = ", or char where that is not installed" if by.endswith("mecab") else ""
            yield (
                f"{key}.metrics: bleu counts what sacrebleu's tokenizer {by} finds{where}, because spaces do "
                "not separate the words of the targets"
            )

    def check(self, models: Mapping[str, Model], tasks: Mapping[str, Task]) -> None:
        """Raise EncoderError if a tokenizer lacks the languages of a task."""
        # slow to import
        from headspec.models.pretrained.folders import present
        from headspec.models.tokens.tokenization import tokenizer
        from headspec.tasks.translation.tokens import set_languages

        problems = []
        for (name, model), (asked, task) in itertools.product(models.items(), tasks.items()):
            if present(model, f"models.{name}"):
                try:
                    set_languages(tokenizer(model, f"models.{name}"), vars(task), f"tasks.{asked}")
                except EncoderError as error:
                    problems.append(error)
        if problems:
            raise EncoderError.combined(problems)

    def languages(self, task: Any) -> list[str]:
        return [task.target_language] if task.target_language else []

    def beams(self, task: Any) -> int:
        return int(task.beams)


KIND = Translation()
