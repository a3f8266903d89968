"""Tokens of prompts, and of the answers that follow them."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

import pandas as pd

from headspec.errors import EncoderError, shown
from headspec.prompts.wording import CONTENT_FREE, Wording

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transformers import PreTrainedTokenizerBase

FIELDS = ("text_a", "text_b")


class Prompts:
    """The prompts of a task for one language model.

    Parameters
    ----------
    wording : how examples become prompts
    most : number of tokens that a prompt has at most
    key : config key of the task, for errors
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, wording: Wording, most: int, key: str) -> None:
        self.tokenizer, self.wording, self.most, self.key = tokenizer, wording, most, key
        probe = tokenizer("a", return_special_tokens_mask=True)
        special = zip(probe["input_ids"], probe["special_tokens_mask"], strict=True)
        #: special tokens with which texts start; a prompt is continued, so it has none at its end
        self.start = [token for token, _ in takewhile(lambda pair: pair[1], special)]

    def ids(self, text: str) -> list[int]:
        """The tokens of a text that the model continues."""
        return [*self.start, *self._split(text)]

    def _split(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]

    def of(self, text_a: str | None, text_b: str | None) -> tuple[list[int], bool]:
        """The tokens of an example's prompt, and whether one of its texts was cut to make them fit.

        The longer text is cut first, at its end.

        Raises
        ------
        EncoderError
            What is not the example's texts has too many tokens alone.
        """
        texts = {"text_a": text_a, "text_b": text_b}
        ids, cut = self.ids(self.wording.filled(**texts)), False
        while (excess := len(ids) - self.most) > 0:
            starts = {name: self._starts(text) for name, text in texts.items()}
            longest = max(FIELDS, key=lambda name: len(starts[name]))
            if not (of_longest := starts[longest]):
                raise EncoderError(
                    f"{self.key}.prompt: with {self.key}.shots and without the texts of an example it has "
                    f"{len(ids)} tokens, expected fewer than max_length of the model, {self.most}"
                )
            keep = max(0, len(of_longest) - excess)
            texts[longest], cut = (texts[longest] or "")[: of_longest[keep] if keep else 0], True
            ids = self.ids(self.wording.filled(**texts))
        return ids, cut

    def _starts(self, text: str | None) -> list[int]:
        """Where each token of a text starts in it."""
        if not isinstance(text, str) or not text:  # nan, as a table without second texts is read
            return []
        found = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        return [start for start, _ in found["offset_mapping"]]

    def encode(self, table: pd.DataFrame, classes: Sequence[str]) -> tuple[pd.DataFrame, int]:
        """The prompts of all examples of a labelled data table.

        Returns
        -------
        frame : table 'tokens'; label is the index in `classes`
        truncated : number of examples of which a text was cut

        Raises
        ------
        EncoderError
            As `of`.
        """
        pairs = [self.of(*texts) for texts in zip(table["text_a"], table["text_b"], strict=True)]
        columns = {
            "example": table["example"],
            "label": table["label"].map({name: float(i) for i, name in enumerate(classes)}),
            "input_ids": pd.Series([ids for ids, _ in pairs], index=table.index, dtype=object),
            "token_type_ids": None,
            "words": None,
            "units": None,
        }
        return pd.DataFrame(columns), sum(cut for _, cut in pairs)

    def content_free(self) -> list[list[int]]:
        """The tokens of prompts whose texts say nothing."""
        return [self.of(text, text)[0] for text in CONTENT_FREE]

    def answers(self, classes: Sequence[str]) -> list[int]:
        """The token of each class's answer.

        Raises
        ------
        EncoderError
            One line for each answer that is not one token of its own after the prompt.
        """
        prompt, problems, tokens = self.wording.filled("text", "text"), [], []
        before = self.ids(prompt)
        for name, answer in zip(classes, self.wording.answers, strict=True):
            where, ids = f"{self.key}.answers.{name}: got {answer!r}", self.ids(prompt + answer)
            after = ids[len(before) :]
            if ids[: len(before)] != before:
                problems.append(
                    f"{where}, which the tokenizer joins with the end of the prompt, "
                    f"{shown(self.wording.prompt[-12:])}; expected an answer that starts its own token, such "
                    f"as {' ' + answer.strip()!r} after a prompt without a space at its end"
                )
            elif len(after) != 1 or after[0] == self.tokenizer.unk_token_id:
                pieces = self.tokenizer.convert_ids_to_tokens(after)
                problems.append(f"{where}, the tokens {shown(pieces)}; expected an answer of one known token")
            elif after[0] in tokens:
                problems.append(f"{where}, the same token as another answer; expected one of its own")
            tokens += after[:1]
        if problems:
            raise EncoderError.of(map(EncoderError, problems))
        return tokens
