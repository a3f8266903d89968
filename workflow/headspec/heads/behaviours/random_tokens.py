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
    """A target that a head may attend to.

    Attributes
    ----------
    again : whether only tokens of the second half attend
    distance : (a, b): the token attended to is a * n + b tokens back, where n tokens repeat; None for the
        first token
    control : 'fresh' second halves, which repeat nothing, or 'others', the mean weight of all other tokens
    """

    again: bool
    distance: tuple[int, int] | None
    control: str


FRESH, OTHERS = "fresh", "others"
RANDOM_TOKENS = {
    "previous_token": Behaviour(False, (0, 1), OTHERS),
    "duplicate_token": Behaviour(True, (1, 0), FRESH),
    "induction": Behaviour(True, (1, -1), FRESH),
    "first_token": Behaviour(False, None, OTHERS),
}


def attended(name: str, probe: Probe) -> tuple[Floats, Floats]:
    """Return mean weights of a behaviour and of its control, for each sequence, (n, layers, heads) each."""
    if "random tokens" not in probe.kept:
        sequences = _sequences(
            probe.gates.model, probe.tokenizer, probe.start, probe.sequences, probe.tokens, probe.seed
        )
        probe.kept["random tokens"] = [_weights(probe.gates, each, probe.tokens) for each in sequences]
    repeated, new = probe.kept["random tokens"]
    score, others = repeated[name]
    return score, new[name][0] if RANDOM_TOKENS[name].control == FRESH else others


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


def _weights(gates: HeadGates, ids: torch.Tensor, tokens: int) -> dict[str, tuple[Floats, Floats]]:
    """Return mean weights (n, layers, heads) on the token of each behaviour, and on all others, per token."""
    found = {name: tuple(np.zeros((2, len(ids), *gates.exists.shape))) for name in RANDOM_TOKENS}
    places = {name: _places(RANDOM_TOKENS[name], tokens) for name in RANDOM_TOKENS}

    def of(part: slice) -> None:
        def receive(row: int, weights: torch.Tensor) -> None:
            totals = weights.sum(-1, dtype=torch.float32)  # (batch, heads, tokens); less than 1 with sinks
            for name, (queries, keys) in places.items():
                own_weights = weights[:, :, queries, keys].float()  # (batch, heads, queries)
                others = totals[:, :, queries] - own_weights
                seen = torch.as_tensor(queries, device=weights.device)  # tokens but the one attended to
                for values, each in zip(found[name], (own_weights, others / seen), strict=True):
                    values[part, row, : weights.shape[1]] = each.mean(-1).cpu().numpy()

        with captured(gates, receive):
            gates.model(input_ids=ids[part], attention_mask=torch.ones_like(ids[part]))

    for _ in Halving(gates.model, AT_ONCE).over(len(ids), of):
        pass
    return {name: (values[0], values[1]) for name, values in found.items()}


def _places(behaviour: Behaviour, tokens: int) -> tuple[list[int], list[int]]:
    """Return the places of the tokens that attend, and of the token that each attends to."""
    queries = [*range(1 + tokens, 1 + 2 * tokens)] if behaviour.again else [*range(2, 1 + 2 * tokens)]
    if behaviour.distance is None:
        return queries, [0] * len(queries)
    halves, back = behaviour.distance
    return queries, [query - halves * tokens - back for query in queries]
