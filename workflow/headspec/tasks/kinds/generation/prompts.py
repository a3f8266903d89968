"""Prompts, and the tokens of the answers that a model should write after them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from headspec import per_example
from headspec.errors import DataError, shown
from headspec.models import tokenization
from headspec.models.tokenization import following
from headspec.tasks.kinds.generation.encoding import COLUMNS
from headspec.tasks.kinds.generation.scores import Scorer, extracted, last_number
from headspec.tasks.kinds.language_modelling.encoding import NONE
from headspec.tasks.kinds.texts.prompting import Prompt
from headspec.tasks.kinds.texts.prompts import Prompts

if TYPE_CHECKING:
    from headspec.data.prepare import Prepared


class Generation(Prompts):
    """Prompts that have at most `most` tokens with the longest answer, to which references are cut."""

    continues = True
    columns = COLUMNS
    scored = ""

    @property
    def room(self) -> int:
        """The most tokens of an answer."""
        return int(self.wording.asked["max_new_tokens"])

    @classmethod
    def answer(cls, wording: Any, label: str, classes: Sequence[str]) -> str:
        return str(wording.asked["target_delimiter"]) + label

    def answers(self, classes: Sequence[str]) -> list[int]:
        return []

    def classes(self, classes: list[str], kind: str) -> dict[str, Any]:
        return {"type": kind, **self.wording.asked}

    def longest_answer(self, prepared: Prepared) -> int:
        return self.room

    def following(self, prompt: str, answer: str, where: str) -> list[int]:
        """Return the first tokens of an answer, known or not; ModelError if they join the prompt's."""
        own = following(self.ids, prompt, answer)
        if not own:
            raise self.joined(answer, where, f"the end of the prompt, {shown(prompt[-12:])}")
        return own[: self.room]

    def prompts(self, table: pd.DataFrame, classes: Sequence[str]) -> list[Prompt]:
        rows = zip(*(table[name] for name in ("text_a", "text_b", "label", "example")), strict=True)
        found = []
        for a, b, label, example in rows:
            text = self.answer(self.wording, label, classes)
            prompt = self.prompt(a, b, [text], f"{self.key}.label: example {example}", self.room)
            found.append(prompt._replace(cut=prompt.cut or len(self.split(text)) > self.room))
        return found

    def encode(self, table: pd.DataFrame, classes: Sequence[str]) -> tuple[pd.DataFrame, int]:
        """Return the table 'tokens'; DataError if an answer lacks a number that a metric needs.

        Tokens are those of the prompt and of its answer, without the last token.
        """
        answers, asked = table["label"].tolist(), self.wording.asked
        for example, answer in zip(table["example"], answers, strict=True) if asked["numbers"] else ():
            expected = extracted(answer, asked["pattern"])
            if last_number(answer if expected is None else expected) is None:
                raise DataError(
                    f"{self.key}.metrics: got generated_number, but the answer of example {example}, "
                    f"{shown(answer)}, has no number"
                )
        prompts = self.prompts(table, classes)
        labels = Scorer(asked).constants(answers, table["example"].tolist())
        rows = []
        for prompt in prompts:
            assert prompt.continuations
            (own,) = prompt.continuations
            targets = [NONE] * (len(prompt.input_ids) - 1) + own
            rows.append({"input_ids": prompt.input_ids + own[:-1], "targets": targets})
        frame = pd.DataFrame(rows, index=table.index).assign(
            example=table["example"], token_type_ids=None, reference=answers,
            **per_example.columns("label", labels),
        )  # fmt: skip
        tokenization.check_not_empty(frame["example"], [p.input_ids for p in prompts], f"{self.key}.prompt")
        return frame, sum(prompt.cut for prompt in prompts)


PROMPTS = Generation
