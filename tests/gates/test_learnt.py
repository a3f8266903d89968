"""Learnt gates: where their costs drive them."""

import numpy as np
import pytest
import torch

from headspec.heads.ranking import top_heads
from headspec.training.learnt_gates import (
    L0,
    L0Target,
    LearntGates,
    Partial,
    Soft,
    Subset,
    learnt_gates,
    open_probability,
)

SHAPE = (3, 4)
KINDS = ["l0", "l0-target", "soft", "subset", "subset-hard"]


def uniform(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)).clamp(1e-6, 1 - 1e-6)


def learn(gates: LearntGates, steps: int = 400, worth: torch.Tensor | float = 0.0) -> None:
    """Minimise -(worth * gates) and the cost, as training does."""
    optimizer = torch.optim.Adam([gates.scores], lr=0.1)
    for step in range(steps):
        progress = step / steps
        drawn = gates.draw(progress, uniform(gates.scores.shape, step))
        optimizer.zero_grad()
        (gates.cost(progress) - (worth * drawn).sum()).backward()
        optimizer.step()


def scores(gates: LearntGates) -> np.ndarray:
    return gates.scores.detach().double().numpy()


def test_the_penalty_is_a_coefficient_times_the_expected_number():
    """Whose derivative is P (1 - P)."""
    gates = L0(SHAPE, 0.3)
    with torch.no_grad():
        gates.scores.copy_(torch.randn(SHAPE))
    cost, p = gates.cost(0.5), open_probability(gates.scores.detach())
    cost.backward()
    assert cost.item() == pytest.approx(0.3 * p.sum().item())
    assert torch.allclose(gates.scores.grad, 0.3 * p * (1 - p))


@pytest.mark.parametrize(
    ("penalty", "worth"),
    [
        (0.1, torch.tensor([[0.02, 0.5, 0.0, 0.3], [0.01, 0.0, 0.6, 0.0], [0.0, 0.9, 0.03, 0.4]])),
        (0.1, torch.zeros(SHAPE)),
        (1e-9, torch.ones(SHAPE)),
    ],
    ids=["some", "no head", "every head"],
)
def test_a_head_stays_open_if_it_is_worth_more_than_the_penalty(penalty, worth):
    gates = L0(SHAPE, penalty)
    learn(gates, worth=worth)
    assert np.array_equal(gates.final(scores(gates), None).kept, worth > penalty)


@pytest.mark.parametrize(("penalty", "kept"), [(0.1, 0.4), (0.05, 0.2), (0.2, 0.8)])
def test_a_soft_gate_stays_open_if_it_is_worth_more_than_four_penalties(penalty, kept):
    """Where sigmoid'(score) * worth = penalty; the largest derivative of a sigmoid is a quarter."""
    worth = torch.tensor([[-0.5, -0.01, 0.0, 0.02], [0.15, 0.19, 0.3, 0.35], [0.6, 0.75, 1.2, 2.0]])
    gates = Soft(SHAPE, penalty)
    learn(gates, worth=worth)
    final = gates.final(scores(gates), None)
    assert np.array_equal(final.kept, (worth > kept).numpy()) and final.probability is None
    held = final.gate[final.kept]
    np.testing.assert_allclose(held * (1 - held) * worth.numpy()[final.kept], penalty, rtol=0.02)
    assert final.gate[~final.kept] == pytest.approx(0.018, abs=1e-3)
    assert np.array_equal(gates.final(scores(gates), 2).kept, (worth > 1).numpy())


def test_a_pull_towards_open_closes_only_what_harms():
    """Without the first half, there is no pull at all."""
    worth = torch.tensor([[-2.0, -0.85, -0.6, -0.35], [-0.02, 0.0, 0.0, 0.0], [0.01, 0.3, 0.9, 2.0]])
    gates = Soft(SHAPE, -0.1)
    learn(gates, worth=worth)
    assert np.array_equal(gates.final(scores(gates), None).kept, (worth > -0.4).numpy())
    assert gates.cost(0.49) == 0 and gates.cost(0.5).item() == pytest.approx(
        -0.1 * scores(gates).sum(), rel=1e-5
    )


@pytest.mark.parametrize("steps", [120, 400])
@pytest.mark.parametrize("share", [0.1, 0.3, 0.7])
@pytest.mark.parametrize("worth", [0.0, 0.02, 0.3])
def test_a_target_is_reached(worth, share, steps):
    """Whether the losses would keep no head or all of them, in few steps and many."""
    gates = L0Target((6, 12), round(share * 72))
    learn(gates, steps, worth * uniform((6, 12), 0))
    reached = float(open_probability(gates.scores.detach()).sum())
    assert reached == pytest.approx(round(share * 72), abs=0.05 * 72)


def test_the_multiplier_climbs_once_the_target_stays():
    gates = L0Target(SHAPE, 3)
    gates.cost(0.4)
    assert gates.multiplier == 0
    cost = gates.cost(1.0)
    above = float(open_probability(gates.scores.detach()).sum()) - 3
    assert float(gates.multiplier) == pytest.approx(0.03 * 0.3 * above)
    assert cost.item() == pytest.approx(float(gates.multiplier) * above + 0.15 * above**2)


@pytest.mark.parametrize("kind", ["subset", "subset-hard", "l0-target"])
def test_the_heads_of_most_worth_are_kept(kind):
    gates, worth = learnt_gates(kind, SHAPE, 4, 0.0), uniform(SHAPE, 4)
    learn(gates, worth=3 * worth)
    kept = gates.final(scores(gates), 4).kept
    assert np.array_equal(kept, top_heads(scores(gates), 4))
    assert (kept & top_heads(worth.double().numpy(), 4)).sum() >= 3


def test_the_number_of_a_subset_falls_and_then_stays():
    gates, noise = Subset(SHAPE, 4), torch.full(SHAPE, 0.5)
    numbers = [gates.draw(progress, noise).sum().item() for progress in (0.0, 0.25, 0.5, 0.9)]
    assert numbers == pytest.approx([12, 8, 4, 4], rel=1e-3)


@pytest.mark.parametrize("spread", [0.0, 1.5, 4.0])
@pytest.mark.parametrize("count", [7, 22, 65])
def test_gates_of_a_subset_become_open_ones(count, spread):
    """From 0 to 1 as they part; in the end, the number that is kept is open and the others are closed."""
    gates = Subset((6, 12), count)
    with torch.no_grad():
        gates.scores.copy_(spread * torch.randn(6, 12, generator=torch.Generator().manual_seed(1)))
        for progress, open_share in [(0.5, 0.0), (0.7, 0.6), (0.99, 0.97)]:
            drawn = torch.stack(
                [gates.draw(progress, uniform((6, 12), seed)).flatten() for seed in range(50)]
            )
            assert drawn.min() >= 0 and drawn.max() <= 1
            torch.testing.assert_close(drawn.sum(1), torch.full((50,), float(count)), rtol=1e-4, atol=0)
            assert drawn.topk(count).values.mean() >= open_share


@pytest.mark.parametrize("kind", ["subset", "subset-hard"])
def test_a_subset_starts_with_gates_of_one_and_parts_slowly(kind):
    gates = learnt_gates(kind, (6, 12), 7, 0.0)
    for seed in range(20):
        assert torch.equal(gates.draw(0.0, uniform((6, 12), seed)), torch.ones(6, 12))
        if kind == "subset":
            soon = gates.draw(0.02, uniform((6, 12), seed))  # 69 of 72
            assert soon.sum().item() == pytest.approx(69, rel=1e-3)
            assert (soon - 69 / 72).abs().max().item() < 0.05


# --- of some heads alone

#: layers whose heads learn
LAYERS = np.array([True, False, True, True, False])
HEADS = 4
#: the second of the layers that learn has three heads, and one that does not learn has two
EXISTS = np.arange(HEADS) < np.array([4, 4, 3, 4, 2])[:, None]
FREE, FIXED = EXISTS & LAYERS[:, None], EXISTS & ~LAYERS[:, None]


def partial(kind: str, count: int | None = 5) -> Partial:
    return Partial(learnt_gates(kind, (11,), count, 0.1), FREE, FIXED)


@pytest.mark.parametrize("kind", KINDS)
def test_other_layers_are_open_and_have_no_gradient(kind):
    gates, weights = partial(kind), torch.arange(20.0).view(5, HEADS)
    noise = uniform(gates.scores.shape, 0)
    drawn, alone = gates.draw(0.5, noise), gates.gates.draw(0.5, noise)
    assert drawn.shape == (5, HEADS) and (drawn[FIXED] == 1).all() and (drawn[~EXISTS] == 0).all()
    assert torch.equal(drawn[FREE], alone)
    (found,) = torch.autograd.grad((drawn * weights).sum(), gates.scores)
    (expected,) = torch.autograd.grad((alone * weights[torch.from_numpy(FREE)]).sum(), gates.scores)
    assert torch.equal(found, expected)


def test_the_cost_is_of_heads_that_learn():
    gates = partial("l0")
    assert gates.cost(0.5).item() == gates.gates.cost(0.5).item() == pytest.approx(0.1 * 11 * 0.977, rel=0.01)
    assert partial("l0-target").target == 5 + FIXED.sum() and gates.target is None


@pytest.mark.parametrize(("count", "learnt"), [(6 + 3, 3), (None, 7)])  # scores from -6 to -3 close
def test_final_gates_keep_the_others_and_count_them(count, learnt):
    scores = np.arange(11.0) - 6
    final = partial("l0", None).final(scores, count)
    assert final.kept[FIXED].all() and final.kept[FREE].sum() == learnt
    assert (final.gate[FIXED] == 1).all() and (final.probability[FIXED] == 1).all()
    assert np.isnan(final.scores[~FREE]).all() and np.array_equal(final.scores[FREE], scores)
    assert not final.kept[~EXISTS].any() and np.isnan(final.gate[~EXISTS]).all()


@pytest.mark.parametrize("made", [partial, lambda kind: learnt_gates(kind, (11,), 5, 0.1)])
@pytest.mark.parametrize("kind", KINDS)
def test_state_is_restored_to_the_byte(kind, made):
    gates, again = made(kind), made(kind)
    drawn = gates.draw(0.0, uniform((11,), 0))
    learn(gates, 5, uniform(tuple(drawn.shape), 0))
    assert not torch.equal(again.scores, gates.scores)
    again.load_state_dict(gates.state_dict())
    assert again.state_dict().keys() == gates.state_dict().keys()
    for name, value in gates.state_dict().items():
        assert torch.equal(value, again.state_dict()[name])
    assert torch.equal(again.scores, gates.scores)
