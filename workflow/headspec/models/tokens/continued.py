"""Special tokens around texts, and the tokens that follow prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def special_tokens(tokenizer: PreTrainedTokenizerBase, target: bool = False) -> tuple[list[int], list[int]]:
    """Return the special tokens with which texts, or those that the model writes, start and end."""
    text = {"text_target" if target else "text": "a"}
    probe = tokenizer(**text, return_special_tokens_mask=True)
    special = list(zip(probe["input_ids"], probe["special_tokens_mask"], strict=True))
    start, end = (
        [token for token, _ in takewhile(lambda pair: pair[1], side)] for side in (special, special[::-1])
    )
    return start, end[::-1]


def around(ids: list[int], start: Sequence[int], end: Sequence[int] = ()) -> list[int]:
    """Return the tokens of a text between special tokens, except those that the text has itself.

    Texts of chats have them, as `apply_chat_template` of transformers writes them.
    """
    before = [] if ids[: len(start)] == [*start] else start
    after = [] if ids[len(ids) - len(end) :] == [*end] else end
    return [*before, *ids, *after]


def once(ids: Sequence[int], start: list[int], end: list[int]) -> slice:
    """Return the part of a text's tokens with special tokens once, though they were in the text as well."""
    ids = list(ids)
    first = len(start) if ids[: 2 * len(start)] == 2 * start else 0
    last = len(end) if ids[first:][-2 * len(end) :] == 2 * end else 0
    return slice(first, len(ids) - last)


def following(ids: Callable[[str], list[int]], prompt: str, answer: str) -> list[int]:
    """Return the tokens of an answer after a prompt; none if the tokenizer joins the two."""
    before, whole = ids(prompt), ids(prompt + answer)
    return whole[len(before) :] if whole[: len(before)] == before else []
