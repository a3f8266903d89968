"""Magnitudes of heads are norms of W_V W_O, read from weights of any layout."""

import numpy as np
import pytest
import torch

import headspec
from headspec.errors import ModelError
from support.model_types import any_model


def product(w_v: torch.Tensor, w_o: torch.Tensor) -> float:
    """The norm, from W_V (inputs, size) and W_O (size, outputs)."""
    return float(torch.linalg.matrix_norm(w_v.double() @ w_o.double()))


def of_roberta(model, layer, head, part):
    attention = model.roberta.encoder.layer[layer].attention
    return product(attention.self.value.weight[part].T, attention.output.dense.weight[:, part].T)


def of_gpt2(model, layer, head, part):
    """Queries, keys and values are columns of one weight."""
    attention = model.transformer.h[layer].attn
    width = attention.c_proj.weight.shape[0]
    return product(attention.c_attn.weight[:, 2 * width :][:, part], attention.c_proj.weight[part])


def of_pythia(model, layer, head, part):
    """Queries, keys and values of a head are side by side."""
    attention = model.gpt_neox.layers[layer].attention
    size = part.stop - part.start
    rows = attention.query_key_value.weight.unflatten(0, (-1, 3, size))[head, 2]
    return product(rows.T, attention.dense.weight[:, part].T)


def of_mixtral(model, layer, head, part):
    """Query heads share values."""
    attention = model.model.layers[layer].self_attn
    size = part.stop - part.start
    shared = 4 // (len(attention.v_proj.weight) // size)
    rows = attention.v_proj.weight.unflatten(0, (-1, size))[head // shared]
    return product(rows.T, attention.o_proj.weight[:, part].T)


READERS = {"roberta": of_roberta, "gpt2-classes": of_gpt2, "pythia": of_pythia, "mixtral": of_mixtral}


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("seed", [0, 1])
def test_they_are_norms_of_products(kind, seed):
    model = any_model.model(kind, seed)
    found = headspec.head_importance(model, score="magnitude")
    size = headspec.HeadGates(model).sites[0].size
    with torch.no_grad():
        expected = [
            [READERS[kind](model, layer, head, slice(head * size, (head + 1) * size)) for head in range(4)]
            for layer in range(2)
        ]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    again = headspec.head_importance(model, any_model.batches(kind), score="magnitude")
    np.testing.assert_array_equal(again, found)
    by_layer = headspec.head_importance(model, score="magnitude", normalize="layer")
    np.testing.assert_allclose((by_layer**2).sum(axis=1), 1)
    assert model.training


def test_a_curve_of_them_evaluates_all_examples():
    model, given = any_model.model("roberta"), any_model.batches("roberta")
    found = headspec.head_curve(model, given, score="magnitude", fractions=[0.5], draws=5)
    expected = headspec.head_curve(
        model, given, scores=headspec.head_importance(model, score="magnitude"), fractions=[0.5], draws=5
    )
    assert found.equals(expected) and found.attrs["n"] == 3


def test_values_that_are_not_seen_are_refused():
    message = "^score 'magnitude': 'mpnet.encoder.layer.0.attention' computes attention without the interface"
    with pytest.raises(ModelError, match=message):
        headspec.head_importance(any_model.model("mpnet"), score="magnitude")


def test_they_are_of_no_example():
    with pytest.raises(
        ValueError, match="^per_example: got True with score 'magnitude', which needs no exam"
    ):
        headspec.head_importance(any_model.model("roberta"), None, None, True, score="magnitude")
