"""Heads that attend from the end of a prompt to its answer, and write it (Wang et al. 2023)."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from headspec.errors import ModelError
from headspec.heads.any_model import user_model
from headspec.heads.behaviours.maps import captured
from headspec.heads.behaviours.probe import Floats, Probe
from headspec.models.attention.placement import device_of
from headspec.models.internals.direct import Direct


def name_movers(probe: Probe) -> tuple[Floats, Floats]:
    """Return weights of the last token of prompts on the answer and on another text, (n, layers, heads) each.

    A weight on a token counts only if the head copies it: its output for this token (see `Direct`) has a
    larger logit there than at every token of the other of the two texts. Raises ValueError without a fast
    tokenizer and two prompts, or if a prompt lacks its answer or other text; ModelError as `Direct`.
    """
    if probe.tokenizer is None or len(probe.prompts) < 2:
        raise ValueError(
            f"prompts: got {len(probe.prompts)}; the behaviour 'name_mover' needs a tokenizer and two or more"
        )
    if not probe.tokenizer.is_fast:
        raise ValueError(
            "tokenizer: got a slow tokenizer, expected a fast one, which says where in a text its tokens are"
        )
    read = [_places(probe, number, *prompt) for number, prompt in enumerate(probe.prompts)]
    named = sorted({ids[place] for ids, *texts in read for places in texts for place in places})
    logits, gates = _copied(probe, named), probe.gates
    found = np.zeros((2, len(read), *gates.exists.shape))
    for i, (ids, *texts) in enumerate(read):
        last: dict[int, torch.Tensor] = {}

        def receive(row: int, weights: torch.Tensor, into: dict[int, torch.Tensor] = last) -> None:
            into[row] = weights[0, :, -1].float().cpu()  # (heads, tokens)

        tokens = torch.tensor([ids], device=device_of(gates.model))
        with captured(gates, receive):
            gates.model(input_ids=tokens, attention_mask=torch.ones_like(tokens))
        own, other = ([named.index(ids[place]) for place in places] for places in texts)
        for values, places, read_here, against in zip(found, texts, (own, other), (other, own), strict=True):
            copies = logits[:, :, read_here, read_here] > logits[:, :, read_here][..., against].max(-1)
            for row, weights in last.items():
                heads = len(weights)
                values[i, row, :heads] = (weights[:, places].numpy() * copies[row, :heads]).sum(1)
    return found[0], found[1]


def _copied(probe: Probe, named: list[int]) -> NDArray[np.float32]:
    """Return logits at tokens of each head's output for each of them, (layers, heads, tokens, tokens)."""
    gates = probe.gates
    ids = torch.tensor(named, device=device_of(gates.model))
    logits = np.zeros((*gates.exists.shape, len(named), len(named)), dtype=np.float32)
    try:
        direct = Direct(gates, ids)
    except ModelError as error:
        raise ModelError(f"behaviour 'name_mover': {error}") from None
    for head in user_model.shown(range(gates.heads), "heads, name_mover"):
        for row, states in direct.of_head(head).items():
            logits[row, head] = direct.written(states)[:, ids].cpu().numpy()
    return logits


def _places(
    probe: Probe, number: int, prompt: str, answer: str, other: str
) -> tuple[list[int], list[int], list[int]]:
    """Return the tokens of a prompt, and the places of the tokens of its answer and of the other text."""
    assert probe.tokenizer is not None
    read = probe.tokenizer(prompt, return_offsets_mapping=True)

    def of(text: str) -> list[int]:
        starts = [i for i in range(len(prompt)) if text.strip() and prompt.startswith(text.strip(), i)]
        spans = [(start, start + len(text.strip())) for start in starts]
        if not spans:
            raise ValueError(f"prompts: {text!r} is not in prompt {number}, {prompt!r}")
        return [
            place
            for place, (first, end) in enumerate(read["offset_mapping"])
            if any(first < stop and start < end for start, stop in spans)
        ]

    return read["input_ids"], of(answer), of(other)
