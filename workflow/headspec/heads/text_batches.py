"""Batches of texts with labels, and of prompts with answers, for a model of transformers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.utils.rnn import pad_sequence

from headspec.errors import listing, nearest
from headspec.heads.losses import IGNORED, Inputs
from headspec.models.tokens.continued import following, special_tokens

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

BATCH = 16  # examples


def made(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase | None,
    texts: Sequence[Any] | None,
    labels: Sequence[Any] | None,
    prompts: Sequence[str] | None,
    answers: Sequence[str] | None,
) -> Iterator[Inputs]:
    """Yield batches of the arguments of `headspec.head_importance`; ValueError if they do not match."""
    given = {"texts": texts, "labels": labels, "prompts": prompts, "answers": answers}
    named = {name: list(value) for name, value in given.items() if value is not None}
    if tokenizer is None or set(named) not in ({"texts", "labels"}, {"prompts", "answers"}):
        got = listing([*named, *(["tokenizer"] if tokenizer is not None else [])])
        raise ValueError(
            f"got {got}; expected batches, or tokenizer, texts and labels, or tokenizer, prompts and answers"
        )
    (name, first), (other, second) = named.items()
    if len(first) != len(second):
        raise ValueError(f"{other}: got {len(second)}, expected {len(first)}, one for each of {name}")
    numbers = [_number(model, label) for label in second] if other == "labels" else second
    for start in range(0, len(first), BATCH):
        part = slice(start, start + BATCH)
        if other == "labels":
            encoded = tokenizer(first[part], padding=True, truncation=True, return_tensors="pt")
            yield {**encoded, "labels": torch.tensor(numbers[part])}
        elif model.config.is_encoder_decoder:
            yield _written(tokenizer, first[part], second[part])
        else:
            yield _continued(tokenizer, first[part], second[part])


def _number(model: PreTrainedModel, label: Any) -> Any:
    """Return the number of a class, or a score."""
    if not isinstance(label, str):
        return label
    known = model.config.label2id or {}
    if label not in known:
        raise ValueError(f"labels: got '{label}'; the model has {listing(known)}.{nearest(label, known)}")
    return known[label]


def _written(tokenizer: PreTrainedTokenizerBase, prompts: list[str], answers: list[str]) -> Inputs:
    """Return a batch for an encoder-decoder, which reads prompts and writes answers."""
    read = tokenizer(prompts, padding=True, truncation=True, return_tensors="pt")
    ids = [torch.tensor(each) for each in tokenizer(text_target=answers)["input_ids"]]
    return {**read, "labels": pad_sequence(ids, batch_first=True, padding_value=IGNORED)}


def _continued(tokenizer: PreTrainedTokenizerBase, prompts: list[str], answers: list[str]) -> Inputs:
    """Return a batch for a decoder, in which only tokens of answers have labels.

    An answer is tokenized after its prompt; on its own it could have other tokens.
    """
    start, _ = special_tokens(tokenizer)

    def ids(text: str) -> list[int]:
        return [*start, *tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]]

    texts, labels = [], []
    for prompt, answer in zip(prompts, answers, strict=True):
        if not (own := following(ids, prompt, answer)):
            raise ValueError(
                f"answers: got {answer!r}, which the tokenizer joins to {prompt!r}; expected one "
                f"that starts a token, such as {' ' + answer.strip()!r}"
            )
        before = ids(prompt)
        texts.append(torch.tensor([*before, *own]))
        labels.append(torch.tensor([IGNORED] * len(before) + own))
    padded = pad_sequence(texts, batch_first=True)
    lengths = torch.tensor([len(text) for text in texts])
    return {
        "input_ids": padded,
        "attention_mask": (torch.arange(padded.shape[1]) < lengths[:, None]).long(),
        "labels": pad_sequence(labels, batch_first=True, padding_value=IGNORED),
    }
