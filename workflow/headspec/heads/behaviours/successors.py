"""Heads that turn a token of an ordered sequence into the next one (Gould et al. 2023)."""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch

from headspec.errors import ModelError
from headspec.heads.any_model import user_model
from headspec.heads.behaviours.probe import Floats, Probe
from headspec.models.attention.placement import device_of
from headspec.models.internals.direct import Direct

#: fewest tokens of a sequence, so that chance is low
SHORTEST = 3
#: those of Gould et al.; one that ends with its first text is a cycle
ORDERS: Mapping[str, Sequence[str]] = {
    name: texts.split()
    for name, texts in {
        "numbers": " ".join(map(str, range(1, 201))),
        "number words": "one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
        "fifteen sixteen seventeen eighteen nineteen twenty",
        "ordinals": "first second third fourth fifth sixth seventh eighth ninth tenth",
        "days": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday Monday",
        "short days": "Mon Tue Wed Thu Fri Sat Sun Mon",
        "months": "January February March April May June July August September October November December "
        "January",
        "short months": "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec Jan",
        "letters": " ".join(string.ascii_uppercase),
    }.items()
}


class Order(NamedTuple):
    """A sequence: its tokens (k,), and places there of a token, the next and the one before it, (n,)."""

    tokens: list[int]
    asked: list[int]
    following: list[int]
    before: list[int]


def successors(probe: Probe) -> tuple[Floats, Floats]:
    """Return whether a head's output for a token has its largest logit at the next, (n, layers, heads).

    Only the logits of the sequence's tokens are compared. The control is the same for the token before (of
    the first, the last), so that heads that write any neighbour are not above it. Raises ValueError without a
    tokenizer, or if a sequence has too few texts of one token. Raises
    ModelError as `Direct`.
    """
    if probe.tokenizer is None:
        raise ValueError("tokenizer: missing; the behaviour 'successor' reads texts")
    orders = [*_orders(probe)]
    if not orders:
        raise ValueError("orders: the tokenizer has no three numbers, days, months or letters of one token")
    gates = probe.gates
    found = np.zeros((2, sum(len(order.asked) for order in orders), *gates.exists.shape))
    ids = torch.tensor([order.tokens[i] for order in orders for i in order.asked])
    ids = ids.to(device_of(gates.model))
    try:
        direct = Direct(gates, ids)
    except ModelError as error:
        raise ModelError(f"behaviour 'successor': {error}") from None
    for head in user_model.shown(range(gates.heads), "heads, successor"):
        for row, states in direct.of_head(head).items():
            logits, start = direct.written(states), 0
            for order in orders:
                here = slice(start, start := start + len(order.asked))
                among = logits[here][:, order.tokens]  # (n, k)
                for values, wanted in zip(found, (order.following, order.before), strict=True):
                    own = among.gather(1, torch.tensor(wanted, device=among.device)[:, None])
                    values[here, row, head] = ((among >= own).sum(1) == 1).cpu()
    return found[0], found[1]


def _orders(probe: Probe) -> Iterator[Order]:
    """Yield sequences of texts that are one token, after a space or, if more of them are, without one."""
    assert probe.tokenizer is not None
    for name, texts in (probe.orders or ORDERS).items():
        forms = [[_token(probe, f"{space}{text}") for text in texts] for space in (" ", "")]
        ids = max(forms, key=lambda form: len({*form} - {None}))
        tokens = [*dict.fromkeys(token for token in ids if token is not None)]
        pairs = [
            (tokens.index(token), tokens.index(after))
            for token, after in zip(ids, ids[1:], strict=False)
            if token is not None and after is not None
        ]
        if len(tokens) < SHORTEST or len(pairs) < SHORTEST - 1:
            if probe.orders:
                raise ValueError(
                    f"orders: '{name}' has {len(tokens)} texts of one token, expected at least {SHORTEST}, "
                    "next to each other"
                )
            continue
        asked, following = zip(*pairs, strict=True)
        yield Order(tokens, [*asked], [*following], [(place - 1) % len(tokens) for place in asked])


def _token(probe: Probe, text: str) -> int | None:
    """Return the id of a text that is one known token, else None."""
    assert probe.tokenizer is not None
    ids = probe.tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids[0] if len(ids) == 1 and ids[0] != probe.tokenizer.unk_token_id else None
