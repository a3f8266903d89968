"""Hard Concrete gates against closed forms and many draws."""

import math

import pytest
import torch
from scipy import integrate, special

from headspec.gates.hard_concrete import BETA, CLOSED, GAMMA, OPEN, ZETA, noisy, open_probability, settled

SCORES = [-4.0, -1.0, 0.0, 0.7, OPEN]


def draws(score: float, n: int = 1_000_000) -> torch.Tensor:
    rng = torch.Generator().manual_seed(1)
    uniform = torch.rand(n, generator=rng, dtype=torch.float64).clamp(1e-12, 1 - 1e-12)
    return noisy(torch.tensor(score, dtype=torch.float64), uniform)


@pytest.mark.parametrize("score", SCORES)
def test_probability_of_an_open_gate(score):
    """P(gate > 0) = sigmoid(score - beta log(-gamma / zeta)), also by a million draws."""
    expected = 1 / (1 + math.exp(-(score - BETA * math.log(-GAMMA / ZETA))))
    assert float(open_probability(torch.tensor(score, dtype=torch.float64))) == pytest.approx(expected)
    assert float((draws(score) > 0).double().mean()) == pytest.approx(expected, abs=0.002)


@pytest.mark.parametrize("score", SCORES)
def test_mean_of_a_gate(score):
    """E(gate) is the integral of P(gate > t) over t from 0 to 1."""

    def above(t: float) -> float:
        return float(special.expit(score - BETA * special.logit((t - GAMMA) / (ZETA - GAMMA))))

    expected, _ = integrate.quad(above, 0, 1)
    assert float(draws(score).mean()) == pytest.approx(expected, abs=0.002)


def test_gates_have_mass_at_both_ends():
    gates = draws(0.0)
    closed, fully = float((gates == 0).double().mean()), float((gates == 1).double().mean())
    assert closed == pytest.approx(1 - float(open_probability(torch.tensor(0.0))), abs=0.002)
    assert fully == pytest.approx(closed, abs=0.002)  # a score of 0 is symmetric


def test_gates_without_noise():
    """sigmoid(score), stretched and cut off: no temperature."""
    scores = torch.tensor([-30.0, -math.log(11) - 1e-3, -1.0, 0.0, 1.0, math.log(11) + 1e-3, 30.0])
    middle = [special.expit(score) * 1.2 - 0.1 for score in (-1.0, 0.0, 1.0)]
    assert settled(scores).tolist() == pytest.approx([0, 0, *middle, 1, 1], abs=1e-6)


def test_a_gate_starts_open():
    score = torch.tensor(OPEN)
    assert settled(score) == 1
    assert open_probability(score) > 0.97
    assert settled(torch.tensor(-3.0)) < CLOSED


@pytest.mark.parametrize("score", SCORES)
def test_gradient_of_the_penalty(score):
    """d P(open) / d score = P (1 - P)."""
    value = torch.tensor(score, dtype=torch.float64, requires_grad=True)
    probability = open_probability(value)
    probability.backward()
    p = probability.item()
    assert value.grad.item() == pytest.approx(p * (1 - p))
