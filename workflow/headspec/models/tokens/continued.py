"""Prompts and the tokens that follow them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def special_tokens(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """Return the special tokens with which texts start, and end."""
    probe = tokenizer("a", return_special_tokens_mask=True)
    special = list(zip(probe["input_ids"], probe["special_tokens_mask"], strict=True))
    start, end = (
        [token for token, _ in takewhile(lambda pair: pair[1], side)] for side in (special, special[::-1])
    )
    return start, end[::-1]


def following(ids: Callable[[str], list[int]], prompt: str, answer: str) -> list[int]:
    """Return the tokens of an answer after a prompt; none if the tokenizer joins the two."""
    before, whole = ids(prompt), ids(prompt + answer)
    return whole[len(before) :] if whole[: len(before)] == before else []
