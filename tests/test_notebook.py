"""The functions of a notebook, on any model with its own task head."""

from __future__ import annotations

import copy
from functools import cache

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

import headspec
from headspec.errors import EncoderError
from support import any_model
from support.any_model import KINDS

#: why the heads of a model cannot be removed
REFUSED = {
    "olmo2": "the others alone do not compute",  # a norm spans all heads
    "t5": "the others alone do not compute",  # one layer has the position biases of all
    "falcon-grouped": "queries, keys and values in one matrix",
}


@cache
def scores(kind: str) -> np.ndarray:
    return headspec.head_importance(any_model.model(kind), any_model.batches(kind), per_example=True)


@torch.no_grad()
def logits(model: PreTrainedModel, kind: str) -> torch.Tensor:
    return model.eval()(**KINDS[kind].batch()).logits


def some(kind: str) -> np.ndarray:
    """Heads that are pruned: all of the first layer, one of the last, so that groups are uneven."""
    gates = headspec.HeadGates(any_model.model(kind))
    heads = np.random.default_rng(2).permutation(np.arange(gates.exists.size) % 2 == 0)
    heads = heads.reshape(gates.exists.shape) & gates.exists
    heads[0] = gates.exists[0]
    heads[-1] = np.arange(gates.heads) == 1
    return heads


def without(kind: str, heads: np.ndarray) -> torch.Tensor:
    """The logits of a model whose columns of W_O are zero for these heads."""
    model = any_model.model(kind)
    gates = headspec.HeadGates(model)
    gates.remove()
    with torch.no_grad():
        for site in gates.sites:
            (row,) = site.rows
            site.columns()[heads[row, : site.heads]] = 0
    return logits(model, kind)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "albert"])
def test_importance_is_the_product_of_weights_and_their_gradients(kind):
    """dL/dxi_h = sum(W_O[:, h] * dL/dW_O[:, h]) of the model's own loss of each example."""
    model = any_model.model(kind).eval()
    gates = headspec.HeadGates(model)
    gates.remove()
    expected = np.full((3, gates.layers, gates.heads), np.nan)
    for example in range(3):
        model.zero_grad()
        model(
            **{name: value[example : example + 1] for name, value in KINDS[kind].batch().items()}
        ).loss.backward()
        for site in gates.sites:
            weight = site.output.weight
            products = (weight * weight.grad).sum(0 if type(site.output) is not Conv1D else 1)
            expected[example, site.rows[0], : site.heads] = products.detach().view(site.heads, -1).sum(1)
    found = scores(kind)
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-5 * np.nanmax(np.abs(expected)))
    mean = headspec.head_importance(any_model.model(kind), any_model.batches(kind))
    np.testing.assert_allclose(mean, np.abs(expected).mean(0), rtol=2e-3, atol=2e-5 * np.nanmax(mean))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "albert"])
def test_closed_heads_are_zero_columns(kind):
    model, heads = any_model.model(kind), some(kind)
    plain = logits(model, kind)
    with headspec.HeadGates(model).closed(heads):
        closed = logits(model, kind)
    torch.testing.assert_close(closed, without(kind, heads), rtol=1e-4, atol=1e-5)
    assert (closed - plain).abs().max() > 1e-3 * plain.abs().max()  # heads matter
    assert torch.equal(logits(model, kind), plain)


@pytest.mark.parametrize("kind", KINDS)
def test_removed_heads_are_closed_heads(kind, tmp_path):
    model, heads = any_model.model(kind), some(kind)
    before = copy.deepcopy(model.state_dict())
    if kind in REFUSED:
        with pytest.raises(EncoderError, match=REFUSED[kind]):
            headspec.remove_heads(model, heads)
    else:
        small = headspec.remove_heads(model, heads)
        with headspec.HeadGates(model).closed(heads):
            expected = logits(model, kind)
        torch.testing.assert_close(logits(small, kind), expected, rtol=1e-3, atol=1e-4)
        assert kind == "albert" or small.num_parameters() < model.num_parameters()
        if kind == "wav2vec2":  # has a weight norm, which torch does not pickle
            again = headspec.remove_heads(any_model.model(kind), heads)
            again.load_state_dict(small.state_dict())
        else:
            torch.save(small, tmp_path / "small.pt")
            again = torch.load(tmp_path / "small.pt", weights_only=False)
        assert torch.equal(logits(again, kind), logits(small, kind))
        assert {p.requires_grad for p in small.parameters()} <= {p.requires_grad for p in model.parameters()}
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
