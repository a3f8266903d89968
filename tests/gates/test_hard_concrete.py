"""Hard Concrete gates against closed forms and many draws."""

import math

import pytest
import torch
from scipy import integrate, special

from headspec.training.learnt_gates import (
    BETA,
    CLOSED,
    GAMMA,
    OPEN,
    ZETA,
    deterministic_gates,
    hard_concrete,
    open_probability,
)

SCORES = [-4.0, -1.0, 0.0, 0.7, OPEN]


def above(t: float, score: float) -> float:
    """P(gate > t)."""
    return float(special.expit(score - BETA * special.logit((t - GAMMA) / (ZETA - GAMMA))))


@pytest.mark.parametrize("score", SCORES)
def test_draws_have_the_distribution_in_closed_form(score):
    """P(gate > 0) = sigmoid(score - beta log(-gamma / zeta)); E(gate) is the integral of P(gate > t)."""
    rng = torch.Generator().manual_seed(1)
    uniform = torch.rand(1_000_000, generator=rng, dtype=torch.float64).clamp(1e-12, 1 - 1e-12)
    score = torch.tensor(score, dtype=torch.float64)
    gates = hard_concrete(score, uniform)
    expected = 1 / (1 + math.exp(-(score - BETA * math.log(-GAMMA / ZETA))))
    assert float(open_probability(score)) == pytest.approx(expected)
    assert float((gates > 0).double().mean()) == pytest.approx(expected, abs=0.002)
    assert float((gates == 1).double().mean()) == pytest.approx(above(1, score), abs=0.002)
    assert float(gates.mean()) == pytest.approx(integrate.quad(above, 0, 1, (score,))[0], abs=0.002)


def test_gates_without_noise():
    """sigmoid(score), stretched and cut off: no temperature."""
    scores = torch.tensor([-30.0, -math.log(11) - 1e-3, -1.0, 0.0, 1.0, math.log(11) + 1e-3, 30.0])
    middle = [special.expit(score) * 1.2 - 0.1 for score in (-1.0, 0.0, 1.0)]
    assert deterministic_gates(scores).tolist() == pytest.approx([0, 0, *middle, 1, 1], abs=1e-6)


def test_a_gate_starts_open():
    score = torch.tensor(OPEN)
    assert deterministic_gates(score) == 1 and deterministic_gates(torch.tensor(-3.0)) < CLOSED
    assert open_probability(score) > 0.97
