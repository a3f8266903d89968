"""Behaviours of heads on random tokens that repeat."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from headspec.heads.any_model.halving import Halving
from headspec.heads.behaviours.maps import captured
from headspec.heads.behaviours.probe import Floats, Probe
from headspec.models.attention.placement import device_of
from headspec.models.gates import HeadGates
from headspec.models.pretrained.config_json import positions
from headspec.seeds import derive

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

#: fewest tokens, so that chance is low
SHORTEST = 8
#: sequences in a pass, at most
AT_ONCE = 8


class Behaviour(NamedTuple):
    """What tokens of the second half of a sequence attend to.

    Attributes
    ----------
    repeated : whether the second half repeats the first; the control is then the weight at the same place
        where it does not. Otherwise, it is the largest mean weight at another distance or place
    back : (a, b): the token attended to is a * n + b tokens back, where n tokens are a half; None for the
        first token
    """

    repeated: bool
    back: tuple[int, int] | None


RANDOM_TOKENS = {
    "previous_token": Behaviour(False, (0, 1)),
    "duplicate_token": Behaviour(True, (1, 0)),
    "induction": Behaviour(True, (1, -1)),
    "first_token": Behaviour(False, None),
}


class Weights(NamedTuple):
    """Mean weights of the tokens of second halves, (n, layers, heads, tokens + 1) each.

    Attributes
    ----------
    back : on the token that is 0, 1, 2, ... tokens back
    place : on the first token, the second, ...
    """

    back: Floats
    place: Floats


def attended(name: str, probe: Probe) -> tuple[Floats, Floats]:
    """Return mean weights of a behaviour and of its control, for each sequence, (n, layers, heads) each."""
    if "random tokens" not in probe.kept:
        sequences = _sequences(
            probe.gates.model, probe.tokenizer, probe.start, probe.sequences, probe.tokens, probe.seed
        )
        probe.kept["random tokens"] = [_weights(probe.gates, each, probe.tokens) for each in sequences]
    behaviour = RANDOM_TOKENS[name]
    halves, back = behaviour.back or (0, 0)
    at = halves * probe.tokens + back
    repeated, new = (
        each.place if behaviour.back is None else each.back for each in probe.kept["random tokens"]
    )
    if behaviour.repeated:
        return repeated[..., at], new[..., at]
    others = np.delete(new, at, axis=-1)
    largest = others.mean(axis=0, keepdims=True).argmax(axis=-1, keepdims=True)
    return new[..., at], np.take_along_axis(others, largest, axis=-1)[..., 0]


def _sequences(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase | None,
    start: int | None,
    n: int,
    tokens: int,
    seed: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return sequences that repeat their tokens, and those that do not, (n, 1 + 2 * tokens) each.

    Raises ValueError if no token begins a text, or sequences do not fit the model or its vocabulary.
    """
    config = model.config.get_text_config()
    first = getattr(tokenizer, "bos_token_id", None) if tokenizer else getattr(config, "bos_token_id", None)
    first = start if start is not None else first
    if first is None:
        raise ValueError("tokenizer: has no BOS token; give the id of another token as start")
    words = config.vocab_size
    if not 0 <= first < words:
        raise ValueError(f"start: got {first}, expected the id of one of {words} tokens")
    most = positions(config.to_dict())
    if tokens < SHORTEST or (most and 1 + 2 * tokens > most):
        upper = f" and at most {(most - 1) // 2}" if most else ""
        raise ValueError(f"tokens: got {tokens}, expected at least {SHORTEST}{upper}")
    special = {first, *(getattr(tokenizer, "all_special_ids", None) or ())}
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        ids = getattr(config, name, None)
        special |= {*(ids if isinstance(ids, (list, tuple)) else [ids])}
    drawn = np.array(
        [word for word in range(min(words, len(tokenizer or range(words)))) if word not in special]
    )
    if len(drawn) < 2 * tokens:
        raise ValueError(f"tokens: got {tokens}, expected at most half of the {len(drawn)} of the vocabulary")
    rng = np.random.default_rng(derive(seed, "behaviours"))
    rows = np.stack([rng.choice(drawn, 2 * tokens, replace=False) for _ in range(n)])
    begins = np.full((n, 1), first)
    repeated = np.concatenate([begins, rows[:, :tokens], rows[:, :tokens]], axis=1)
    device = device_of(model)
    return torch.from_numpy(repeated).to(device), torch.from_numpy(np.concatenate([begins, rows], 1)).to(
        device
    )


def _weights(gates: HeadGates, ids: torch.Tensor, tokens: int) -> Weights:
    """Return the mean weights of the tokens of the second halves of sequences."""
    found = Weights(*np.zeros((2, len(ids), *gates.exists.shape, tokens + 1)))
    queries = torch.arange(1 + tokens, 1 + 2 * tokens, device=ids.device)
    # of the tokens 0, 1, 2, ... back, of which none is the first token
    places = queries[:, None] - torch.arange(1 + tokens, device=ids.device)

    def of(part: slice) -> None:
        def receive(row: int, weights: torch.Tensor) -> None:
            own = weights[:, :, queries].float()  # (batch, heads, queries, tokens)
            back = own.gather(-1, places.expand(*own.shape[:2], -1, -1))
            for values, each in zip(found, (back, own[..., : 1 + tokens]), strict=True):
                values[part, row, : own.shape[1]] = each.mean(2).cpu().numpy()

        with captured(gates, receive):
            gates.model(input_ids=ids[part], attention_mask=torch.ones_like(ids[part]))

    for _ in Halving(gates.model, AT_ONCE).over(len(ids), of):
        pass
    return found
