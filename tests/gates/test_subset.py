"""Subsets of exactly K heads, relaxed and straight-through."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headspec.training.learnt_gates import gumbel, relaxed_subset, straight_through_subset


@given(
    st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=30),
    st.data(),
    st.floats(-3, 3).map(lambda exponent: 10**exponent),
)
def test_gates_are_fractions_that_add_up_to_k(scores, data, temperature):
    """The solution of min -<gates, scores> - temperature * entropy: logits differ as scores do."""
    k = data.draw(st.integers(0, len(scores)))
    given = torch.tensor(scores, dtype=torch.float64)
    gates = relaxed_subset(given, k, temperature)
    assert (gates >= 0).all() and (gates <= 1).all()
    assert float(gates.sum()) == pytest.approx(k, rel=1e-9)
    assert float(relaxed_subset(given.float(), k, temperature).sum()) == pytest.approx(k, rel=1e-4)
    thresholds = (given / temperature - torch.logit(gates))[(gates > 1e-6) & (gates < 1 - 1e-6)]
    if 0 < k < len(scores) and len(thresholds):
        torch.testing.assert_close(thresholds, thresholds[:1].expand_as(thresholds), rtol=1e-6, atol=1e-6)


def test_a_group_far_above_the_others_is_open_once():
    """K successive softmaxes give each of these gates about 3."""
    scores = torch.tensor([3.0] * 5 + [0.0] * 20)
    for temperature in (1.0, 0.1, 0.01):
        gates = relaxed_subset(scores, 15, temperature)
        assert gates.max() <= 1
        assert gates.sum().item() == pytest.approx(15, rel=1e-5)
    assert gates.tolist() == pytest.approx([1] * 5 + [0.5] * 20)


@given(st.integers(0, 10_000), st.integers(1, 11))
def test_straight_through_opens_k_heads_whatever_the_noise(seed, k):
    rng = torch.Generator().manual_seed(seed)
    scores = torch.randn(12, generator=rng) + gumbel(torch.rand(12, generator=rng))
    gates = straight_through_subset(scores, k, 0.3)
    assert gates.round().sum() == k
    assert torch.allclose(gates, gates.round(), atol=1e-5)
    assert gates[scores.topk(k).indices].round().eq(1).all()


def test_the_straight_through_gradient_is_that_of_the_relaxation():
    scores = torch.randn(9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weights = torch.arange(9.0, dtype=torch.float64)
    gradients = []
    for function in (relaxed_subset, straight_through_subset):
        leaf = scores.clone().requires_grad_()
        (function(leaf, 4, 0.5) * weights).sum().backward()
        gradients.append(leaf.grad)
    assert torch.allclose(*gradients)
    assert gradients[0].abs().max() > 0.1


@pytest.mark.parametrize(("k", "temperature"), [(1, 0.7), (3, 0.7), (5, 3.0), (3, 0.1)])
def test_gradient_of_the_relaxation(k, temperature):
    """By finite differences."""
    scores = torch.randn(6, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda s: relaxed_subset(s, k, temperature), scores.requires_grad_())


def test_at_a_low_temperature_the_largest_are_open():
    scores = torch.tensor([0.0, 5.0, 1.0, 4.0, -2.0])
    assert relaxed_subset(scores, 2, 0.1).tolist() == pytest.approx([0, 1, 0, 1, 0], abs=1e-3)


@pytest.mark.parametrize("gates", [relaxed_subset, straight_through_subset])
def test_the_subset_of_all_has_gates_of_one(gates):
    scores = (9 * torch.randn(12, generator=torch.Generator().manual_seed(0))).requires_grad_()
    drawn = gates(scores, 12, 0.1)
    assert drawn.eq(1).all()
    drawn.sum().backward()
    assert scores.grad.eq(0).all()


def test_no_gradient_overflows_at_the_lowest_temperature():
    """Where no gate is between 0 and 1 in float32, nothing is divided by their spread."""
    for spread in (1.0, 30.0, 300.0):
        scores = (spread * torch.randn(144, generator=torch.Generator().manual_seed(5))).requires_grad_()
        (relaxed_subset(scores, 72, 0.01) * torch.randn(144)).sum().backward()
        assert scores.grad.isfinite().all()


def test_noise_draws_subsets_without_replacement():
    """The K largest of scores + Gumbel noise are drawn one after another, in proportion to exp(score)."""
    scores = torch.tensor([0.0, 1.0, -1.0, 0.5], dtype=torch.float64)
    rng = torch.Generator().manual_seed(2)
    n = 200_000
    noise = gumbel(torch.rand(n, 4, generator=rng, dtype=torch.float64).clamp(1e-12, 1 - 1e-12))
    first_two = (scores + noise).topk(2, dim=1).indices.sort(dim=1).values
    weight = scores.exp().numpy()
    for pair in itertools.combinations(range(4), 2):
        expected = sum(
            weight[i] / weight.sum() * weight[j] / (weight.sum() - weight[i]) for i, j in (pair, pair[::-1])
        )
        drawn = float((first_two == torch.tensor(pair)).all(dim=1).double().mean())
        assert drawn == pytest.approx(expected, abs=5 * np.sqrt(expected / n))
