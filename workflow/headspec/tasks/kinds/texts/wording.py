"""The wording of prompts: demonstrations, the example, and the answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from headspec.data.prepare import stratified_order

#: separator between a demonstration and the next prompt
BETWEEN = "\n\n"
#: texts without content (Zhao et al. 2021)
CONTENT_FREE = ("N/A", "[MASK]", "")
#: field for a masked model's answer
MASK = re.compile(r"(?<!\{)\{mask\}(?!\})")


@dataclass(frozen=True)
class Wording:
    """How the examples of a task become prompts.

    Attributes
    ----------
    prompt : text with the fields ``{text_a}`` and, for pairs, ``{text_b}``; for masked models also ``{mask}``
    answers : one for each class, in order; empty if each example has its own answer
    chat : whether prompts are the user's turns in a conversation, and answers the model's
    before : text of the demonstrations before every prompt
    turns : in conversations, the prompt and the answer of every demonstration
    asked : what else prompts and answers of the kind depend on
    """

    prompt: str
    answers: tuple[str, ...]
    chat: bool = False
    before: str = ""
    turns: tuple[tuple[str, str], ...] = ()
    asked: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def for_task(cls, task: Any, classes: list[str], asked: Mapping[str, Any] | None = None) -> Wording:
        """Return the wording from the keys of a task, and `asked` of its kind, without demonstrations."""
        answers = tuple(task.answers[name] for name in classes)
        return cls(task.prompt or "", answers, task.chat, asked=asked or {})

    @property
    def masked(self) -> bool:
        """Whether the answer is inside the prompt."""
        return bool(MASK.search(self.prompt))

    def filled(self, text_a: str | None, text_b: str | None, mask: str = "") -> str:
        """Return the prompt of an example after the demonstrations, with `mask` in place of the answer."""
        return self.before + mask.join(self.parts(text_a, text_b))

    def parts(self, text_a: str | None, text_b: str | None) -> list[str]:
        """Return the text before the answer and, in prompts of masked models, after it."""
        return [part.format(text_a=text_a, text_b=text_b) for part in MASK.split(self.prompt)]

    def answered(self, text_a: str | None, text_b: str | None, answer: str) -> str:
        """Return the prompt of an example with an answer, in place of the mask or at the end."""
        before, *after = self.parts(text_a, text_b)
        return self.before + answer.join([before, "".join(after)])

    def showing(self, rows: pd.DataFrame, answers: Sequence[str]) -> Wording:
        """Return this wording after demonstrations: rows of a data table, with their `answers`."""
        bare = replace(self, before="", turns=())
        shown = [*zip(rows["text_a"].tolist(), rows["text_b"].tolist(), answers, strict=True)]
        if self.chat:
            return replace(bare, turns=tuple((bare.filled(a, b), answer) for a, b, answer in shown))
        return replace(bare, before="".join(bare.answered(*example) + BETWEEN for example in shown))


def conversation(tokenizer: Any, turns: Sequence[tuple[str, str]], question: str) -> str:
    """Return a conversation of earlier `turns` and a question, in the tokenizer's template."""
    messages = [
        {"role": role, "content": text}
        for turn in [*turns, (question,)]
        for role, text in zip(("user", "assistant"), turn, strict=False)
    ]
    # some templates include today's date by default, or a section for thoughts before the answer
    fixed = {"date_string": "26 Jul 2024", "enable_thinking": False}
    return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **fixed))


def demonstrations(train: pd.DataFrame, shots: int, rng: np.random.Generator) -> pd.DataFrame:
    """Draw `shots` rows of a training table, stratified by class, in random order."""
    drawn = stratified_order(train["label"], rng)[:shots]
    return train.iloc[rng.permutation(drawn)]
