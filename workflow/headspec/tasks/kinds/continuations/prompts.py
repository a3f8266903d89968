"""Pairs of continuations as prompts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headspec.errors import ModelError, shown
from headspec.models.tokenization import around, special_tokens
from headspec.tasks.kinds.continuations.data import CLASSES, answers
from headspec.tasks.kinds.texts.prompting import Prompt, Prompting
from headspec.tasks.kinds.texts.prompts import Prompts

if TYPE_CHECKING:
    import pandas as pd
    from transformers import PreTrainedTokenizerBase

    from headspec.data.prepare import Prepared
    from headspec.tasks.kinds.texts.wording import Wording


class Pairs(Prompting):
    """Pairs of texts as continuations, after the tokenizer's start tokens.

    Without any, they follow its token for beginnings, for ends or for unknown words. Raises ModelError if the
    tokenizer has none of these.
    """

    continues = True

    def __init__(self, tokenizer: PreTrainedTokenizerBase, wording: Wording, most: int, key: str) -> None:
        super().__init__(tokenizer, wording, most, key)
        between = (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id)
        self.start = special_tokens(tokenizer)[0] or [token for token in between if token is not None][:1]
        if not self.start:
            raise ModelError(
                f"{key}.type: the model's tokenizer has no token to begin a text with; use another model"
            )

    def labels(self, classes: list[str]) -> list[str]:
        return CLASSES

    def prompt(self, good: str, bad: str) -> Prompt:
        """Return the common beginning of two texts, each cut after `most` tokens, and both continuations.

        Each continuation has at least one token. Raises ModelError if a text has none.
        """
        whole = [
            around(self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"], self.start)
            for text in (good, bad)
        ]
        if min(map(len, whole)) == len(self.start):
            raise ModelError(
                f"{self.key}: {shown(good)} or {shown(bad)} has no tokens; expected texts that have tokens"
            )
        cut = [ids[: self.most] for ids in whole]
        shared = min(len(os.path.commonprefix(cut)), min(map(len, cut)) - 1)
        return Prompt(cut[0][:shared], None, cut != whole, [ids[shared:] for ids in cut])

    def prompts(self, table: pd.DataFrame, classes: Sequence[str]) -> list[Prompt]:
        return [self.prompt(*texts) for texts in zip(table["text_a"], table["text_b"], strict=True)]


MINIMAL_PAIRS_PROMPTS = Pairs


#: distinct pairs of answers read while planning; jobs read all
PAIRS = 300


class AnswerPairs(Prompts):
    """Prompts followed by the right or the wrong answer of an example."""

    continues = True
    scored = Prompting.scored

    def labels(self, classes: list[str]) -> list[str]:
        return CLASSES

    @classmethod
    def answer(cls, wording: Wording, label: str, classes: Sequence[str]) -> str:
        return answers(label)[0]

    def prompts(self, table: pd.DataFrame, classes: Sequence[str]) -> list[Prompt]:
        rows = zip(*(table[name] for name in ("text_a", "text_b", "label", "example")), strict=True)
        return [
            self.prompt(a, b, answers(label), f"{self.key}.label: example {example}")
            for a, b, label, example in rows
        ]

    def longest_answer(self, prepared: Prepared) -> int:
        text = self.filled("text", "text")
        pairs = prepared.train["label"].drop_duplicates().head(PAIRS).map(answers)
        return max(len(self.following(text, each, f"{self.key}.label")) for pair in pairs for each in pair)


ANSWER_PAIRS_PROMPTS = AnswerPairs
