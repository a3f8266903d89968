"""Gates of which only those of some layers learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headspec.gates.learnt import learnt_gates
from headspec.gates.partial import Partial

LAYERS = np.array([True, False, True, True, False])
HEADS = 4


def partial(kind: str, count: int | None = 5) -> Partial:
    return Partial(learnt_gates(kind, (3, HEADS), count, 0.1), LAYERS)


@pytest.mark.parametrize("kind", ["l0", "l0-target", "subset", "subset-hard"])
def test_other_layers_are_open_and_have_no_gradient(kind):
    gates = partial(kind)
    uniform = torch.rand(gates.scores.shape, generator=torch.Generator().manual_seed(0)).clamp(0.01, 0.99)
    drawn = gates.draw(0.5, uniform)
    assert drawn.shape == (5, HEADS) and (drawn[~LAYERS] == 1).all()
    assert torch.equal(drawn[LAYERS], gates.gates.draw(0.5, uniform))
    (weight,) = torch.autograd.grad((drawn * torch.arange(20.0).view(5, HEADS)).sum(), gates.scores)
    alone = gates.gates.draw(0.5, uniform) * torch.arange(20.0).view(5, HEADS)[torch.from_numpy(LAYERS)]
    (expected,) = torch.autograd.grad(alone.sum(), gates.scores)
    assert torch.equal(weight, expected)


def test_the_cost_is_of_heads_that_learn():
    gates = partial("l0")
    assert gates.cost(0.5).item() == gates.gates.cost(0.5).item() == pytest.approx(0.1 * 12 * 0.977, rel=0.01)
    assert partial("l0-target").target == 5 + 2 * HEADS and partial("l0").target is None


def test_settled_gates_keep_the_others_and_count_them():
    gates = partial("l0", None)
    scores = np.arange(12.0).reshape(3, HEADS) - 6
    for count, learnt in ((8 + 3, 3), (None, 8)):  # scores from -6 to -3 close
        settled = gates.settled(scores, count)
        assert settled.kept[~LAYERS].all() and settled.kept[LAYERS].sum() == learnt
        assert (settled.gate[~LAYERS] == 1).all() and (settled.probability[~LAYERS] == 1).all()
        assert np.isnan(settled.scores[~LAYERS]).all() and np.array_equal(settled.scores[LAYERS], scores)


def test_states_are_those_of_the_gates():
    gates, other = partial("l0-target"), partial("l0-target")
    with torch.no_grad():
        gates.scores.fill_(0.5)
    other.load_state_dict(gates.state_dict())
    assert (other.scores == 0.5).all()
