"""Subsets of exactly K heads, relaxed and straight-through."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headspec.gates.subset import gumbel, relaxed, straight_through


@given(st.integers(0, 10_000), st.integers(1, 12), st.floats(0.1, 2.0))
def test_gates_add_up_to_k(seed, k, temperature):
    scores = 3 * torch.randn(12, generator=torch.Generator().manual_seed(seed))
    assert float(relaxed(scores, k, temperature).sum()) == pytest.approx(k, rel=1e-4)


@given(st.integers(0, 10_000), st.integers(1, 11))
def test_straight_through_opens_k_heads_whatever_the_noise(seed, k):
    rng = torch.Generator().manual_seed(seed)
    scores = torch.randn(12, generator=rng) + gumbel(torch.rand(12, generator=rng))
    gates = straight_through(scores, k, 0.3)
    assert gates.round().sum() == k
    assert torch.allclose(gates, gates.round(), atol=1e-5)
    assert gates[scores.topk(k).indices].round().eq(1).all()


def test_the_straight_through_gradient_is_that_of_the_relaxation():
    scores = torch.randn(9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weights = torch.arange(9.0, dtype=torch.float64)
    gradients = []
    for function in (relaxed, straight_through):
        leaf = scores.clone().requires_grad_()
        (function(leaf, 4, 0.5) * weights).sum().backward()
        gradients.append(leaf.grad)
    assert torch.allclose(*gradients)
    assert gradients[0].abs().max() > 0.1


def test_gradient_of_the_relaxation():
    scores = torch.randn(6, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda s: relaxed(s, 3, 0.7), scores.requires_grad_())


def test_at_a_low_temperature_the_largest_are_open():
    scores = torch.tensor([0.0, 5.0, 1.0, 4.0, -2.0])
    assert relaxed(scores, 2, 0.1).tolist() == pytest.approx([0, 1, 0, 1, 0], abs=1e-3)


@pytest.mark.parametrize("gates", [relaxed, straight_through])
def test_the_subset_of_all_has_gates_of_one(gates):
    scores = (9 * torch.randn(12, generator=torch.Generator().manual_seed(0))).requires_grad_()
    drawn = gates(scores, 12, 0.1)
    assert drawn.eq(1).all()
    drawn.sum().backward()
    assert scores.grad.eq(0).all()


def test_no_gradient_overflows_at_the_lowest_temperature():
    """Elements that softmax has taken entirely have 1 - p = 0 in float32."""
    for spread in (1.0, 30.0, 300.0):
        scores = (spread * torch.randn(144, generator=torch.Generator().manual_seed(5))).requires_grad_()
        (relaxed(scores, 72, 0.1) * torch.randn(144)).sum().backward()
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
