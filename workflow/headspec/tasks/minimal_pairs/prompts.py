"""Tokens of minimal pairs: two texts, of which the first should be the likelier."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from headspec.errors import EncoderError, HeadspecError, shown
from headspec.models.tokens.continued import special_tokens
from headspec.tasks.continuations.data import CLASSES
from headspec.tasks.texts.prompts import COLUMNS, Prompt, written

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from headspec.config.sections.task import Task


class Pairs:
    """The minimal pairs of a task for one language model.

    The first token of a text has a probability after what its tokenizer starts texts with, or else after the
    token that begins or ends one. What both texts begin with is the same for both, and read once.

    Parameters
    ----------
    most : number of tokens that a text has at most
    key : config key of the task, for errors
    """

    columns = COLUMNS

    def __init__(self, tokenizer: PreTrainedTokenizerBase, most: int, key: str) -> None:
        self.tokenizer, self.most, self.key = tokenizer, most, key
        self.start = special_tokens(tokenizer)[0]
        between = (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id)
        self.start = self.start or [token for token in between if token is not None][:1]
        if not self.start:
            raise EncoderError(
                f"{key}.type: the model's tokenizer has no token to begin a text with; expected another model"
            )

    def of(self, good: str, bad: str) -> Prompt:
        """The beginning that two texts share, and what follows it in each; both end after `most` tokens."""
        whole = [
            self.start + self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
            for text in (good, bad)
        ]
        if min(map(len, whole)) == len(self.start):
            raise EncoderError(
                f"{self.key}: {shown(good)} or {shown(bad)} has no tokens, expected texts with some"
            )
        cut = [ids[: self.most] for ids in whole]
        shared = min(len(os.path.commonprefix(cut)), min(map(len, cut)) - 1)
        return Prompt(cut[0][:shared], None, cut != whole, [ids[shared:] for ids in cut])

    def encode(self, table: pd.DataFrame, classes: Sequence[str] = ()) -> tuple[pd.DataFrame, int]:
        """The minimal pairs of a data table; as `Prompts.encode`, but there are no classes.

        Returns
        -------
        frame : table 'tokens'; label is the index of the right text, 0
        truncated : number of pairs of which a text was cut
        """
        pairs = [self.of(*texts) for texts in zip(table["text_a"], table["text_b"], strict=True)]
        label = pd.Series(0.0, index=table.index)
        return written(table["example"], label, pairs), sum(pair.cut for pair in pairs)

    def answers(self, classes: Sequence[str]) -> list[int]:
        return []

    def content_free(self) -> list[Prompt]:
        return []


class OfPairs:
    """Tasks whose texts are the continuations themselves (`headspec.tasks.prompts.Prompting`)."""

    continues = True

    def labels(self, classes: list[str]) -> list[str]:
        return CLASSES

    def encoder(
        self,
        tokenizer: PreTrainedTokenizerBase,
        task: Task,
        classes: list[str],
        shown: pd.DataFrame | None,
        most: int,
        key: str,
    ) -> Pairs:
        return Pairs(tokenizer, most, key)

    def scored(self, encoder: Pairs, key: str) -> str:
        return f"{key}.type"

    def problems(self, *given: Any) -> Iterator[HeadspecError]:
        return iter(())


PROMPTS = OfPairs()
