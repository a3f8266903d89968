"""Translation, or any other task in which an encoder-decoder writes texts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pydantic import Field

from headspec.tasks.kind import Kind

if TYPE_CHECKING:
    from headspec.tasks.keys import TaskKeys

#: keys of a task that its `Classes` keep
KEYS = ("prefix", "source_language", "target_language")
#: key of `Classes`: language of targets without spaces between words (`headspec.data.characters.unspaced`)
UNSPACED = "unspaced"
#: sacrebleu's tokenizers for BLEU in such languages, if installed
TOKENIZERS = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
#: tokenizer for other such languages, or if those are not installed
BY_CHARACTER = "char"


class Translation(Kind):
    about = "a text, by an encoder-decoder"
    called = "of translation"
    metrics = ("chrf", "bleu", "exact_match")
    several = (
        "`prediction_values` of a constant text",
        "the sums of sacrebleu, in its order: BLEU's lengths of text and reference, matches and n-grams by "
        "order; chrF's n-grams of text and reference and matches by order; 1 if the texts are equal",
    )
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
            int,
            Field(
                1,
                ge=1,
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
        """Yield problems with languages that have no token in the vocabulary."""
        key, language = f"{key}.target_language", task.target_language
        expected = f"the language that {model} is told to write, such as 'de'"
        if language is None:
            yield f"{key}: missing, expected {expected}."
        elif not re.fullmatch(r"[\w-]+", language):
            yield f"{key}: got '{language}', expected {expected}: letters, digits, '_' and '-'."

    def notes(self, key: str, task: TaskKeys, classes: Any) -> Iterator[str]:
        """Yield a line if BLEU does not count words separated by spaces."""
        language = classes.get(UNSPACED)
        if language and "bleu" in task.metrics:
            by = TOKENIZERS.get(language, BY_CHARACTER)
            where = ", or char where that is not installed" if by.endswith("mecab") else ""
            yield (
                f"{key}.metrics: bleu counts the tokens of sacrebleu's tokenizer {by}{where}, because spaces "
                "do not separate the words of the targets"
            )

    def languages(self, task: Any) -> list[str]:
        return [task.target_language] if task.target_language else []

    def beams(self, task: Any) -> int:
        return int(task.beams)


KIND = Translation()
