"""Tokens of prompts, and of the answers that follow them."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from headspec.errors import EncoderError, shown
from headspec.prompts.wording import CONTENT_FREE, Wording, conversation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transformers import PreTrainedTokenizerBase

FIELDS = ("text_a", "text_b")


class Prompt(NamedTuple):
    """The tokens of a prompt.

    Attributes
    ----------
    words : 0 at the mask, -1 elsewhere; None without a mask
    cut : whether one of its texts was cut
    """

    input_ids: list[int]
    words: list[int] | None
    cut: bool


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
        if wording.masked and tokenizer.mask_token is None:
            raise EncoderError(
                f"{key}.prompt: got '{{mask}}' in it, which the model's tokenizer has no token for"
            )
        if wording.chat and tokenizer.chat_template is None:
            raise EncoderError(
                f"{key}.chat: got true, expected false, because the model's tokenizer has no chat template"
            )
        probe = tokenizer("a", return_special_tokens_mask=True)
        special = list(zip(probe["input_ids"], probe["special_tokens_mask"], strict=True))
        #: special tokens with which texts start and end; one that is continued has none at its end
        self.start, self.end = (
            [token for token, _ in takewhile(lambda pair: pair[1], side)] for side in (special, special[::-1])
        )
        self.end = self.end[::-1] if wording.masked else []
        self.start = [] if wording.chat else self.start  # the template has it

    def ids(self, text: str) -> list[int]:
        """The tokens of a text that the model reads, or continues."""
        return [*self.start, *self._split(text), *self.end]

    def filled(self, text_a: str | None, text_b: str | None, mask: str = "") -> str:
        """The text of an example's prompt, with `mask` in the place of a masked model's answer."""
        text = self.wording.filled(text_a, text_b, mask)
        return conversation(self.tokenizer, self.wording.turns, text) if self.wording.chat else text

    def _split(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]

    def of(self, text_a: str | None, text_b: str | None) -> Prompt:
        """The tokens of an example's prompt. Where they do not fit, the longer text is cut first, at its end.

        Raises
        ------
        EncoderError
            What is not the example's texts has too many tokens alone.
        """
        texts = {"text_a": text_a, "text_b": text_b}
        ids, cut = self.ids(self._answered(**texts)), False
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
            ids = self.ids(self._answered(**texts))
        if not self.wording.masked:
            return Prompt(ids, None, cut)
        (place,) = self._places(self.wording.answers[0], **texts)
        ids[place] = self.tokenizer.mask_token_id
        return Prompt(ids, [0 if i == place else -1 for i in range(len(ids))], cut)

    def _answered(self, text_a: str | None, text_b: str | None) -> str:
        """A prompt; of masked models with an answer, whose token the mask then takes, as in pretraining."""
        return self.filled(text_a, text_b, self.wording.answers[0] if self.wording.masked else "")

    def _places(self, answer: str, text_a: str | None, text_b: str | None) -> range:
        """The tokens of a prompt that have to do with an answer in the place of the mask."""
        text = self.wording.filled(text_a, text_b, answer)
        found = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        stop = len(text) - len(self.wording.parts(text_a, text_b)[1])
        start = stop - len(answer.lstrip())
        own = [i for i, (a, b) in enumerate(found["offset_mapping"]) if a < stop and b > start]
        return range(len(self.start) + own[0], len(self.start) + own[-1] + 1)

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
        prompts = [self.of(*texts) for texts in zip(table["text_a"], table["text_b"], strict=True)]
        columns = {
            "example": table["example"],
            "label": table["label"].map({name: float(i) for i, name in enumerate(classes)}),
            "input_ids": pd.Series([prompt.input_ids for prompt in prompts], index=table.index, dtype=object),
            "token_type_ids": None,
            "words": pd.Series([prompt.words for prompt in prompts], index=table.index, dtype=object),
            "units": None,
        }
        return pd.DataFrame(columns), sum(prompt.cut for prompt in prompts)

    def content_free(self) -> list[Prompt]:
        """The tokens of prompts whose texts say nothing."""
        return [self.of(text, text) for text in CONTENT_FREE]

    def answers(self, classes: Sequence[str]) -> list[int]:
        """The token of each class's answer.

        Raises
        ------
        EncoderError
            One line for each answer that is not one token of its own after the prompt.
        """
        problems, tokens, of_first = [], [], None
        end_of = f"the end of the prompt, {shown(self.wording.prompt[-12:])}"
        beside = "the words beside {mask}" if self.wording.masked else end_of
        for name, answer in zip(classes, self.wording.answers, strict=True):
            if self.wording.masked:
                ids = self.ids(self.filled("text", "text", answer))
                places = self._places(answer, "text", "text")
                others = ids[: places.start], ids[places.stop :]
                of_first = of_first or others
            else:
                text = self.filled("text", "text")
                prompt, ids = self.ids(text), self.ids(text + answer)
                places, of_first = range(len(prompt), len(ids)), (prompt, [])
                others = ids[: len(prompt)], []
            where, own = f"{self.key}.answers.{name}: got {answer!r}", [ids[i] for i in places]
            if others != of_first:
                problems.append(
                    f"{where}, which the tokenizer joins with {beside}; expected an answer that starts its "
                    f"own token, such as {' ' + answer.strip()!r} after a prompt without a space at its end"
                )
            elif len(own) != 1 or own[0] == self.tokenizer.unk_token_id:
                pieces = self.tokenizer.convert_ids_to_tokens(own)
                problems.append(f"{where}, the tokens {shown(pieces)}; expected an answer of one known token")
            elif own[0] in tokens:
                problems.append(f"{where}, the same token as another answer; expected one of its own")
            tokens += own[:1]
        if problems:
            raise EncoderError.of(map(EncoderError, problems))
        return tokens
