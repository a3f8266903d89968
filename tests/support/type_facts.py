"""What works for a type of transformers, found out on a tiny random model of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from transformers import PreTrainedModel

from headspec.errors import EncoderError
from headspec.heads.importance import gate_gradients
from headspec.heads.masks import Mask
from headspec.heads.pruning import under_masks
from headspec.models.batching import Examples
from headspec.models.export.slicing import remove_heads
from headspec.models.gates import HeadGates
from headspec.models.head_parameters import head_slices
from headspec.models.internals.attention_maps import attention_maps
from headspec.models.internals.propagation import propagating
from headspec.models.multitask import MultiTask
from support import every_type
from support.tiny import CPU

TEXTS = 3


@dataclass
class Facts:
    """Whether each use of the heads of a type works; a text says why not."""

    maps: str | bool  #: attention weights are captured
    rows: str | bool  #: rows of Q, K and V, and columns of W_O, that IAT trains
    relevance: str | bool
    removed: str | bool  #: heads are removed, for export


def same(one: torch.Tensor, other: torch.Tensor, tolerance: float = 1e-4) -> bool:
    return torch.allclose(one, other, rtol=tolerance, atol=tolerance * float(other.abs().max()))


def inputs(model: PreTrainedModel) -> dict[str, Any]:
    """Texts of as many tokens, with targets for an encoder-decoder."""
    ids = torch.arange(TEXTS * 8).view(TEXTS, 8) % 90 + 7
    given: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "use_cache": False}
    if "use_cache" not in HeadGates(model).inputs:
        del given["use_cache"]
    if model.config.is_encoder_decoder:
        given["decoder_input_ids"] = ids[:, :5]
    return given


def states(
    model: PreTrainedModel, given: dict[str, Any], gates: HeadGates, values: Any = None
) -> torch.Tensor:
    gates.values = values
    try:
        output = model(**given)
        return output.logits if model.config.is_encoder_decoder else output[0]
    finally:
        gates.values = None


def check_gates(model: PreTrainedModel, gates: HeadGates, given: dict[str, Any]) -> None:
    """Gates of one change no bit; a closed head is its columns of W_O at zero, for each head."""
    ones = torch.ones(gates.layers, gates.heads)
    with torch.no_grad():
        plain = states(model, given, gates)
        assert torch.equal(plain, states(model, given, gates, ones))
        seen = []
        for site in gates.sites:
            for head in range(site.heads):
                values = ones.clone()
                values[site.rows, head] = 0
                closed = states(model, given, gates, values)
                assert not torch.equal(closed, plain), f"head {head} of {site.name} changes nothing"
                seen.append(closed)
                if site.output is None:
                    continue
                columns = site.columns()[head]
                original = columns.clone()
                columns.zero_()
                zeroed = states(model, given, gates)
                columns.copy_(original)
                assert same(closed, zeroed), f"head {head} of {site.name} is not its columns"


def check_gradients(model: PreTrainedModel, gates: HeadGates, given: dict[str, Any]) -> None:
    """Gates of examples have gradients, which are those of a batch of one."""
    weights = torch.randn(states(model, given, gates).shape[1:], generator=torch.Generator().manual_seed(1))

    def gradients(part: dict[str, Any], texts: int) -> torch.Tensor:
        values = torch.ones(texts, gates.layers, gates.heads, requires_grad=True)
        loss = (states(model, part, gates, values) * weights).sum()
        return torch.autograd.grad(loss, values)[0]

    batch = gradients(given, TEXTS)
    assert batch.isfinite().all() and batch[:, gates.exists].abs().sum(0).gt(0).all()
    for i in range(TEXTS):
        one = {name: v[[i]] if isinstance(v, torch.Tensor) else v for name, v in given.items()}
        assert same(batch[[i]], gradients(one, 1), 1e-3), f"example {i}"


def check_study(model: PreTrainedModel, gates: HeadGates) -> MultiTask:
    """Importance and a masked evaluation, as of a study; texts of several lengths."""
    net = MultiTask(model, every_type.pooling(model), {"a": ["x", "y"]}).eval()
    lengths = [5, 8, 11, 6]
    frame = {"example": range(4), "label": [0.0, 1.0, 0.0, 1.0], "token_type_ids": [None] * 4}
    texts = Examples(pd.DataFrame(frame | {"input_ids": [list(range(7, 7 + n)) for n in lengths]}))
    rows = np.arange(4)
    batched = gate_gradients(net, "a", texts, rows, CPU)
    for i in rows:
        alone = gate_gradients(net, "a", texts, rows[[i]], CPU)[0]
        np.testing.assert_allclose(batched[i], alone, rtol=1e-2, atol=1e-3 * np.abs(batched).max())
    closed = ~np.tri(*gates.exists.shape, dtype=bool) & gates.exists
    masks = [Mask("none", "top", 0.0, None, np.zeros_like(closed)), Mask("a", "top", 0.5, None, closed)]
    assert np.isfinite(under_masks(net, "a", texts, rows, masks, CPU)).all()
    return net


def check_maps(model: PreTrainedModel, gates: HeadGates, given: dict[str, Any]) -> None:
    """Attention weights of every row sum to at most 1: of types with sinks to less."""
    found: dict[int, torch.Tensor] = {}
    with torch.no_grad(), attention_maps(gates, found.__setitem__):
        model(**given)
    assert sorted(found) == sorted(row for site in gates.sites for row in site.rows)
    for row, weights in found.items():
        assert weights.shape[:2] == (TEXTS, gates.site(row).heads)
        assert weights.min() >= 0 and weights.sum(-1).max() < 1 + 1e-4


def check_rows(gates: HeadGates) -> None:
    """Every head has rows of its own, or shares them within a group, and all columns of W_O."""
    slices = head_slices(gates, "qkvo")
    for row, head in np.argwhere(gates.exists):
        of_head = [each for each in slices if each.heads[row, head]]
        columns = [each for each in of_head if each.parameter is gates.site(row).output.weight]
        assert sum(each.stop - each.start for each in columns) == gates.site(row).size
        assert len(of_head) > len(columns)


def check_relevance(model: PreTrainedModel, gates: HeadGates, given: dict[str, Any]) -> None:
    """Rules of relevance keep outputs, and give every head a finite relevance."""
    with torch.no_grad():
        plain = states(model, given, gates)
    values = torch.ones(TEXTS, gates.layers, gates.heads, requires_grad=True)
    with propagating(gates, "constant_attention"):
        output = states(model, given, gates, values)
        relevance = torch.autograd.grad(output.square().sum(), values)[0]
    assert same(output, plain) and relevance.isfinite().all()
    assert relevance[:, gates.exists].abs().sum(0).gt(0).all()


def check_removed(net: MultiTask) -> None:
    """A model without half its heads computes what it does with them closed."""
    rng = np.random.default_rng(0)
    gates, ids = net.gates, torch.arange(TEXTS * 8).view(TEXTS, 8) % 90 + 7
    kept = ~gates.exists | (rng.random(gates.exists.shape) < 0.5)
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    with torch.no_grad():
        closed = states(net.encoder, given, gates, torch.from_numpy(kept).float())
        remove_heads(net, kept)
        assert same(net.encoder(**given)[0], closed)


def attempt(check: Any, *args: Any) -> str | bool:
    """True, or why it is refused. Anything else than a refusal in a sentence is an error."""
    try:
        check(*args)
    except EncoderError as error:
        return str(error)
    return True
