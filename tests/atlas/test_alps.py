"""ALPS: how far training moved the weights of heads, by softmax and the Wasserstein distance."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from scipy.special import softmax
from scipy.stats import wasserstein_distance
from torch import nn

from headspec.atlas.alps import alps
from headspec.errors import ModelError
from headspec.models.attention.weight_shifts import distance, weight_shifts
from headspec.models.gates import HeadGates
from support.tiny import CPU, HEADS, LAYERS, encoder, examples, multitask

SIZE = 8


def of_bert(model, layer, head):
    here, rows = model.encoder.layer[layer].attention.self, slice(head * SIZE, (head + 1) * SIZE)
    return [part.weight[rows] for part in (here.query, here.key, here.value)]


def of_llama(model, layer, head):
    """Two query heads share keys and values."""
    here, shared = model.layers[layer].self_attn, head // 2
    return [
        part.weight[number * SIZE : (number + 1) * SIZE]
        for part, number in ((here.q_proj, head), (here.k_proj, shared), (here.v_proj, shared))
    ]


def of_gpt2(model, layer, head):
    """Queries, keys and values are columns of one weight."""
    columns = model.h[layer].attn.c_attn.weight.T.unflatten(0, (3, HEADS, SIZE))
    return list(columns[:, head])


READERS = {"bert": of_bert, "llama": of_llama, "gpt2": of_gpt2}


def expected(before, after, kind: str) -> np.ndarray:
    """The scores as the authors compute them."""
    scores = np.zeros((LAYERS, HEADS))
    for layer, head in np.ndindex(LAYERS, HEADS):
        one, other = (
            torch.cat([part.detach().flatten() for part in READERS[kind](model, layer, head)]).double()
            for model in (before, after)
        )
        places = np.linspace(0, 1, len(one))
        scores[layer, head] = wasserstein_distance(places, places, softmax(one), softmax(other))
    return scores


@pytest.mark.parametrize("kind", READERS)
def test_scores_are_wasserstein_distances_of_softmax_over_places(kind):
    before, after = encoder(kind), encoder(kind, seed=1)
    found = weight_shifts(HeadGates(after), before)
    assert (found > 0).all()
    np.testing.assert_allclose(found, expected(before, after, kind), rtol=1e-6)
    assert np.unique(found.round(12)).size == found.size


@pytest.mark.parametrize("kind", READERS)
def test_only_heads_whose_weights_changed_score(kind):
    before = encoder(kind)
    after = deepcopy(before)
    for parameter in after.parameters():
        if parameter.dim() == 1:
            nn.init.normal_(parameter)  # biases and norms do not count
    queries, _, values = READERS[kind](after, 1, 2)
    with torch.no_grad():
        queries[3] += 0.5
    found = weight_shifts(HeadGates(after), before)
    assert [*map(tuple, np.argwhere(found))] == [(1, 2)]
    with torch.no_grad():
        values[3] += 0.5
    users = [(1, 2), (1, 3)] if kind == "llama" else [(1, 2)]
    assert [*map(tuple, np.argwhere(weight_shifts(HeadGates(after), before)))] == users


def test_the_distance_of_a_moved_weight_is_how_far_it_moved():
    """All of the mass at the first of five places, then at the fourth."""
    one, other = torch.full((2, 5), -1e9)
    one[0] = other[3] = 0
    assert distance(one, other) == distance(other, one) == 0.75
    assert distance(one, one + 7) == 0


def test_layers_that_share_weights_have_equal_scores():
    found = weight_shifts(HeadGates(encoder("albert", seed=1)), encoder("albert"))
    assert (found == found[0]).all() and (found > 0).all()


def test_no_example_matters_to_the_measure():
    model, n = multitask("llama", {"a": ["x", "y"]}), 21
    before = encoder("llama", seed=1)
    values = alps(model, "a", examples(n), np.arange(n), CPU, before)
    assert values.shape == (n, LAYERS, HEADS)
    np.testing.assert_array_equal(values[-1], weight_shifts(model.gates, before))


def test_other_models_and_packed_weights_are_refused():
    model = encoder("llama")
    with pytest.raises(ModelError, match=r"^'layers.0.self_attn.q_proj.weight' of the model before training"):
        weight_shifts(HeadGates(model), encoder("llama", hidden_size=64))
    model.layers[1].self_attn.k_proj.weight = nn.Parameter(model.layers[1].self_attn.k_proj.weight.to("meta"))
    gates = HeadGates(encoder("llama"))
    gates.sites[1].attention = model.layers[1].self_attn
    with pytest.raises(ModelError, match=r"^the projections of 'layers.1.self_attn' are quantised"):
        weight_shifts(gates, encoder("llama"))
