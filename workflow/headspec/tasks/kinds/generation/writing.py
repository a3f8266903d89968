"""Texts that a language model writes after prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class Texts(NamedTuple):
    """Texts that a model wrote after each prompt.

    Attributes
    ----------
    texts : each up to the first stop string
    unstopped : number of texts without a stop string
    broken : bool (n,), whether a logit that decided a token was nan or infinite
    """

    texts: list[str]
    unstopped: int
    broken: torch.Tensor


def left_padded(rows: Sequence[torch.Tensor], pad: int) -> dict[str, torch.Tensor]:
    """Return the arguments of a decoder for prompts, (tokens,) each, padded at their beginning."""
    most = max(map(len, rows))
    ids = torch.stack([torch.nn.functional.pad(row, (most - len(row), 0), value=pad) for row in rows])
    lengths = torch.tensor([[len(row)] for row in rows], device=ids.device)
    real = torch.arange(most, device=ids.device) >= most - lengths
    return {"input_ids": ids, "attention_mask": real.long()}


def padding(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """Return the token that pads prompts and finished texts."""
    config = model.generation_config
    pads = (tokenizer.pad_token_id, config.pad_token_id, tokenizer.eos_token_id, 0)
    return next(int(pad) for pad in pads if pad is not None)


@torch.no_grad()
def write(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: dict[str, torch.Tensor],
    max_new_tokens: int,
    stop: Sequence[str] = (),
    temperature: float = 0.0,
    seed: int = 0,
) -> Texts:
    """Return the texts that a model writes after prompts, greedily without a `temperature`.

    With one, tokens are drawn from random numbers that depend on `seed` alone, not on gates. Texts end at a
    string of `stop`, a token that ends texts, or after `max_new_tokens`. Other settings, but for beams and
    the form of results, are those of the model's generation config. `prompts` are arguments of the model, as
    from `left_padded`.
    """
    length = 0 if model.config.is_encoder_decoder else prompts["input_ids"].shape[1]
    broken = torch.zeros(len(prompts["input_ids"]), dtype=torch.bool, device=prompts["input_ids"].device)

    def noted(_: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        broken.logical_or_(~logits.amax(-1).isfinite())
        return logits

    settings: dict[str, Any] = {
        "do_sample": temperature > 0, "num_beams": 1, "num_return_sequences": 1,
        "return_dict_in_generate": False,
    }  # fmt: skip
    if temperature:
        settings["temperature"] = temperature
    if stop:
        settings["stopping_criteria"] = [_stopped(tokenizer, length, stop)]
    with torch.random.fork_rng([broken.device] if broken.is_cuda else []):
        torch.manual_seed(seed)
        ids = model.generate(
            **prompts, max_new_tokens=max_new_tokens, pad_token_id=padding(model, tokenizer),
            logits_processor=[noted], **settings,
        )  # fmt: skip
    whole = _decoded(tokenizer, ids[:, length:])
    texts = [before(text, stop) for text in whole]
    return Texts(texts, sum(a == b for a, b in zip(texts, whole, strict=True)), broken)


def _decoded(tokenizer: PreTrainedTokenizerBase, ids: torch.Tensor) -> list[str]:
    texts: list[str] = tokenizer.batch_decode(ids, skip_special_tokens=True)
    return texts


def _stopped(tokenizer: PreTrainedTokenizerBase, length: int, stop: Sequence[str]) -> Callable[..., Any]:
    """Return a test for texts with a stop string (that of transformers fails for some tokenizers)."""

    def stopped(ids: torch.Tensor, _: Any, **__: Any) -> torch.Tensor:
        found = [any(each in text for each in stop) for text in _decoded(tokenizer, ids[:, length:])]
        return torch.tensor(found, device=ids.device)

    return stopped


def before(text: str, stop: Sequence[str]) -> str:
    """Return a text up to the first of the strings that end it."""
    return text[: min((place for each in stop if (place := text.find(each)) >= 0), default=len(text))]
