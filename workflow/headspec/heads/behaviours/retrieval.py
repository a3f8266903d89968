"""Heads that find what a text hides, by numbers in sentences about other things (Wu et al. 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from headspec.heads.behaviours.maps import captured
from headspec.heads.behaviours.probe import Floats, Probe
from headspec.models.attention.placement import device_of
from headspec.models.pretrained.config_json import positions
from headspec.models.tokenization import special_tokens
from headspec.seeds import derive

#: sentences that hide numbers, as in RULER (Hsieh et al. 2024)
HAY = " The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
NEEDLE = " The number of {name} is{value}."
QUESTION = " What is the number of {name}? The number of {name} is"
NAMES = "Anna", "Boris", "Clara", "David", "Emma", "Frank", "Grace", "Henry"
#: digits of a number
DIGITS = 6


class Hidden(NamedTuple):
    """Tokens (tokens,) that end with a copied number; places of this and another number in the text."""

    ids: list[int]
    needle: list[int]
    other: list[int]


def retrieval(probe: Probe) -> tuple[Floats, Floats]:
    """Return shares of the tokens of a number that are copied with the head's largest weight on them.

    They are (n, layers, heads) each, of the number that is asked for and of the other number in the text.
    Raises ValueError without a tokenizer, or if a text does not fit the model.
    """
    if probe.tokenizer is None:
        raise ValueError("tokenizer: missing; the behaviour 'retrieval' reads texts")
    gates, model = probe.gates, probe.gates.model
    found = np.zeros((2, probe.sequences, *gates.exists.shape))
    rng = np.random.default_rng(derive(probe.seed, "retrieval"))
    most = positions(model.config.get_text_config().to_dict())
    for i in range(probe.sequences):
        hidden = _hidden(probe, rng, asked_first=i % 2 == 0)
        if most and len(hidden.ids) > most:
            raise ValueError(
                f"tokens: got {probe.tokens}, with which 'retrieval' reads {len(hidden.ids)}; "
                f"the model takes at most {most}"
            )
        n = len(hidden.needle)
        asking = slice(len(hidden.ids) - n - 1, len(hidden.ids) - 1)  # each predicts a token of the number
        largest: dict[int, torch.Tensor] = {}

        def receive(
            row: int, weights: torch.Tensor, at: slice = asking, into: dict[int, torch.Tensor] = largest
        ) -> None:
            into[row] = weights[0, :, at].argmax(-1).cpu()  # (heads, n)

        ids = torch.tensor([hidden.ids], device=device_of(model))
        with captured(gates, receive):
            logits = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
        copied = (logits[0, asking].argmax(-1) == ids[0, -n:]).cpu()  # (n,)
        for row, places in largest.items():
            for values, wanted in zip(found, (hidden.needle, hidden.other), strict=True):
                hits = (places == torch.tensor(wanted)) & copied
                values[i, row, : len(places)] = hits.float().mean(1).numpy()
    return found[0], found[1]


def _hidden(probe: Probe, rng: np.random.Generator, asked_first: bool) -> Hidden:
    """Return a text in which two numbers are hidden; its end asks for one of them and gives it."""
    names = rng.choice(NAMES, 2, replace=False).tolist()
    asked, other = ("".join(map(str, rng.integers(0, 10, DIGITS))) for _ in names)
    tokens = [_ids(probe, f" {number}") for number in (asked, other)]
    while len(tokens[1]) != len(tokens[0]):
        tokens[1] = _ids(probe, " " + "".join(map(str, rng.integers(0, 10, DIGITS))))
    assert probe.tokenizer is not None
    ids = [probe.start] if probe.start is not None else list(special_tokens(probe.tokenizer)[0])
    hay = _hay(probe, rng)
    depths = sorted(rng.choice(np.arange(1, len(hay)), 2, replace=False).tolist())
    places: list[list[int]] = [[], []]
    order = (0, 1) if asked_first else (1, 0)
    parts = [hay[: depths[0]], hay[depths[0] : depths[1]], hay[depths[1] :]]
    for part, which in zip(parts, order, strict=False):
        before, after = NEEDLE.format(name=names[which], value="\0").split("\0")
        ids += [*part, *_ids(probe, before)]
        places[which] = [*range(len(ids), len(ids) + len(tokens[which]))]
        ids += [*tokens[which], *_ids(probe, after)]
    ids += [*parts[2], *_ids(probe, QUESTION.format(name=names[0])), *tokens[0]]
    return Hidden(ids, *places)


def _hay(probe: Probe, rng: np.random.Generator) -> list[int]:
    """Return the tokens among which numbers are hidden: of the probe's texts, shuffled, or of `HAY`."""
    most, hay = 4 * probe.tokens, list[int]()
    for number in rng.permutation(len(probe.texts)):
        if len(hay) >= most:
            break
        hay += _ids(probe, f" {probe.texts[number].strip()}")
    hay = hay or _ids(probe, HAY)
    return (hay * (most // len(hay) + 1))[:most]


def _ids(probe: Probe, text: str) -> list[int]:
    assert probe.tokenizer is not None
    ids: Sequence[int] = probe.tokenizer(text, add_special_tokens=False)["input_ids"]
    return list(ids)
