"""Gates of which only those of some heads learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headspec.gates.learnt import Partial, learnt_gates

LAYERS = np.array([True, False, True, True, False])
HEADS = 4
#: the second of the layers that learn has three heads, and one that does not learn has two
EXISTS = np.arange(HEADS) < np.array([4, 4, 3, 4, 2])[:, None]
FREE, FIXED = EXISTS & LAYERS[:, None], EXISTS & ~LAYERS[:, None]


def partial(kind: str, count: int | None = 5) -> Partial:
    return Partial(learnt_gates(kind, (11,), count, 0.1), FREE, FIXED)


@pytest.mark.parametrize("kind", ["l0", "l0-target", "subset", "subset-hard"])
def test_other_layers_are_open_and_have_no_gradient(kind):
    gates = partial(kind)
    uniform = torch.rand(gates.scores.shape, generator=torch.Generator().manual_seed(0)).clamp(0.01, 0.99)
    drawn = gates.draw(0.5, uniform)
    assert drawn.shape == (5, HEADS) and (drawn[FIXED] == 1).all() and (drawn[~EXISTS] == 0).all()
    assert torch.equal(drawn[FREE], gates.gates.draw(0.5, uniform))
    (weight,) = torch.autograd.grad((drawn * torch.arange(20.0).view(5, HEADS)).sum(), gates.scores)
    alone = gates.gates.draw(0.5, uniform) * torch.arange(20.0).view(5, HEADS)[torch.from_numpy(FREE)]
    (expected,) = torch.autograd.grad(alone.sum(), gates.scores)
    assert torch.equal(weight, expected)


def test_the_cost_is_of_heads_that_learn():
    gates = partial("l0")
    assert gates.cost(0.5).item() == gates.gates.cost(0.5).item() == pytest.approx(0.1 * 11 * 0.977, rel=0.01)
    assert partial("l0-target").target == 5 + FIXED.sum() and partial("l0").target is None


def test_settled_gates_keep_the_others_and_count_them():
    gates = partial("l0", None)
    scores = np.arange(11.0) - 6
    for count, learnt in ((6 + 3, 3), (None, 7)):  # scores from -6 to -3 close
        settled = gates.settled(scores, count)
        assert settled.kept[FIXED].all() and settled.kept[FREE].sum() == learnt
        assert (settled.gate[FIXED] == 1).all() and (settled.probability[FIXED] == 1).all()
        assert np.isnan(settled.scores[~FREE]).all() and np.array_equal(settled.scores[FREE], scores)
        assert not settled.kept[~EXISTS].any() and np.isnan(settled.gate[~EXISTS]).all()


def test_states_are_those_of_the_gates():
    gates, other = partial("l0-target"), partial("l0-target")
    with torch.no_grad():
        gates.scores.fill_(0.5)
    other.load_state_dict(gates.state_dict())
    assert (other.scores == 0.5).all()
