"""IAT: a batch updates the heads that its task owns, and nothing else in the projections."""

import re
from collections import Counter
from copy import deepcopy

import numpy as np
import pytest
import torch

from headspec.config.sections.training import Training
from headspec.errors import ConfigError
from headspec.heads.importance import importance
from headspec.heads.ranking import importance_map
from headspec.models.attention.head_parameters import head_slices
from headspec.models.multitask import MultiTask
from headspec.training.checkpoint import Checkpoint
from headspec.training.iat import branch, owned_heads, retrain
from headspec.training.loop import train
from headspec.training.updates import Updates
from headspec.training.variants.own import Own, OwnHeads
from support.tiny import CPU, HEADS, LAYERS, by_family, examples
from support.two_tasks import CLASSES, NO_DROPOUT, data, model, never, same, setup

SETUP = setup()


def backward(net: MultiTask, task: str) -> None:
    batch = examples(6).batch(np.arange(6))
    net.losses(task, net.pool(batch), batch.labels).mean().backward()


def step(net: MultiTask, updates, *tasks: str) -> None:
    for task in tasks:
        backward(net, task)
        updates.step(task, 1e-2)


# --- slices of heads


@pytest.mark.parametrize("kind", by_family())
def test_slices_are_those_of_their_heads(kind):
    """With every gate but one closed, exactly that head's slices have gradients."""
    net = model(kind).eval()
    slices = head_slices(net.gates, "qkvo")
    layers, heads = net.gates.layers, net.gates.heads
    for layer, head in [(0, 0), (1, heads - 1), (layers - 1, 1)]:
        net.gates.values = torch.zeros(layers, heads)
        net.gates.values[layer, head] = 1
        net.zero_grad()
        backward(net, "a")
        for part in slices:
            gradient = part.view(part.parameter.grad)
            if part.heads[layer, head]:
                # a bias of keys does not change attention
                assert gradient.abs().max() > 1e-10 or part.parameter.dim() == 1
            else:
                assert (gradient == 0).all(), (layer, head)


@pytest.mark.parametrize("kind", by_family())
def test_slices_cover_the_projections_once(kind):
    net = model(kind)
    slices = head_slices(net.gates, "qkvo")
    counts = {id(s.parameter): torch.zeros_like(s.parameter) for s in slices}
    for part in slices:
        part.view(counts[id(part.parameter)]).add_(1)
    assert all((count == 1).all() for count in counts.values())
    assert np.any([part.heads for part in slices], axis=0).all()
    attentions = [re.match(r"(.*?\.)?[^.]*att[^.]*\.", f"{site.name}.")[0] for site in net.gates.sites]
    for name, parameter in net.encoder.named_parameters():
        if name.startswith(tuple(attentions)) and id(parameter) not in counts:
            assert "norm" in name.lower() or any(parameter is site.output.bias for site in net.gates.sites)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("albert", {LAYERS: 6 * HEADS}),  # all layers are one module: weights and biases of Q, K and V
        ("llama", {1: LAYERS * HEADS, 2: LAYERS * 2 * 2}),  # two groups of keys and values
    ],
)
def test_slices_belong_to_all_heads_that_share_them(kind, expected):
    """Number of heads: number of slices that belong to so many."""
    slices = head_slices(model(kind).gates, "qkv")
    assert Counter(int(part.heads.sum()) for part in slices) == expected


# --- what is updated


def snapshot(updates: OwnHeads) -> list[list[torch.Tensor]]:
    """Clones of the weights of every group of slices, and of its copy, step count and moments, if any."""
    states = [(group, updates.optimizer.state.get(group.copy, {})) for group in updates.groups.values()]
    return [[v.clone() for v in (*group.weights, group.copy, *state.values())] for group, state in states]


@pytest.mark.parametrize("projections", ["qkv", "qkvo"])
@pytest.mark.parametrize("kind", by_family())
def test_rows_that_a_task_does_not_own_are_frozen_bit_by_bit(kind, projections):
    """Despite momentum from plain training, momentum from other tasks' steps, and weight decay."""
    net = model(kind).train()
    plain = Updates(net, Training(learning_rate=1e-3, weight_decay=0.1))
    step(net, plain, "a", "b", "a")
    owned = {task: np.zeros(net.gates.exists.shape, dtype=bool) for task in CLASSES}
    owned["a"][:, 0] = owned["b"][:, 1] = owned["a"][0, 1] = True
    slices = head_slices(net.gates, projections)
    updates = OwnHeads(plain, slices, owned)
    step(net, updates, "b")
    attention = {id(part.parameter) for part in slices}
    outside = {name: p for name, p in net.named_parameters() if id(p) not in attention}
    assert sum(len(group.slices) for group in updates.groups.values()) == len(slices)
    for task in ("a", "b", "a"):
        before = snapshot(updates)
        values = {name: p.detach().clone() for name, p in outside.items()}
        backward(net, task)
        learning = {name for name, p in outside.items() if p.grad is not None and p.grad.any()}
        updates.step(task, 1e-2)
        for group, held, now in zip(updates.groups.values(), before, snapshot(updates), strict=True):
            (owns,) = {bool((part.heads & owned[task]).any()) for part in group.slices}
            same = [torch.equal(x, y) for x, y in zip(held, now, strict=True)]
            if owns:
                *weights, copy, steps, _, _ = now
                assert steps == held[-3] + 1 and not any(same[len(weights) :])
                assert torch.equal(torch.cat([weight.flatten() for weight in weights]), copy)
                matrices = [i for i, part in enumerate(group.slices) if part.parameter.dim() == 2]
                assert not any(same[i] for i in matrices)
            else:
                assert all(same)
        moved = {name for name, value in values.items() if not torch.equal(outside[name], value)}
        assert learning <= moved and any(name.startswith("encoder.") for name in learning)


def after_steps(owned: np.ndarray | None, projections: str, first: str, then: str, **settings) -> MultiTask:
    """A model without dropout after plain steps on tasks, and further ones in which all tasks own heads."""
    net = model(**NO_DROPOUT).train()
    updates = Updates(net, Training(learning_rate=1e-3, **settings))
    step(net, updates, *first)
    if owned is not None:
        updates = OwnHeads(updates, head_slices(net.gates, projections), dict.fromkeys(CLASSES, owned))
    step(net, updates, *then)
    return net


def test_owned_rows_move_as_plain_adamw_moves_them():
    """If every head is owned; the moments continue those of plain training."""
    everyone = np.ones((LAYERS, HEADS), dtype=bool)
    plain, own = (after_steps(owned, "qkvo", "aba", "bab", weight_decay=0.1) for owned in (None, everyone))
    for name, value in plain.state_dict().items():
        if not name.endswith("key.bias"):  # does not change attention: its gradient is rounding error
            torch.testing.assert_close(own.state_dict()[name], value, rtol=1e-4, atol=1e-6, msg=name)


def test_unrestricted_parameters_move_as_in_plain_training():
    """Even with clipping, which uses the norm over all parameters."""
    some = np.eye(LAYERS, HEADS, dtype=bool)
    plain, own = (after_steps(owned, "qkv", "b", "b", clip=1e-3) for owned in (None, some))
    for name, value in plain.state_dict().items():
        if ".attention.self." not in name:
            torch.testing.assert_close(own.state_dict()[name], value, rtol=1e-6, atol=1e-8, msg=name)


# --- heads that tasks own


IMPORTANCES = {task: np.random.default_rng(i).random((6, 12)) for i, task in enumerate("abc")}


@pytest.mark.parametrize("heads", ["top", "bottom", "random", "random-by-layer", "other"])
def test_every_choice_has_the_same_number_of_heads(heads):
    owned, again, other = (owned_heads(IMPORTANCES, heads, 0.3, seed) for seed in (0, 0, 1))
    assert [mask.sum() for mask in owned.values()] == [21, 21, 21]
    assert all((again[task] == owned[task]).all() for task in owned)
    if heads.startswith("random"):
        assert any((other[task] != owned[task]).any() for task in owned)
        assert (owned["a"] != owned["b"]).any()


def test_choices_match_their_names():
    top, bottom, by_layer, unshared = (
        owned_heads(IMPORTANCES, heads, 0.3, 0) for heads in ("top", "bottom", "random-by-layer", "unshared")
    )
    owners = np.sum(list(top.values()), axis=0)
    for task, scores in IMPORTANCES.items():
        assert ((scores >= np.sort(scores.ravel())[-21]) == top[task]).all()
        assert ((scores <= np.sort(scores.ravel())[20]) == bottom[task]).all()
        assert (by_layer[task].sum(axis=1) == top[task].sum(axis=1)).all()
        assert (by_layer[task] != top[task]).any()
        assert (unshared[task] == (top[task] & (owners == 1))).all()
    assert 0 < sum(mask.sum() for mask in unshared.values()) < 3 * 21
    for seed in range(6):
        other = owned_heads(IMPORTANCES, "other", 0.3, seed)
        assert all((other[task] != top[task]).any() for task in top)
        assert sorted(m.tobytes() for m in other.values()) == sorted(m.tobytes() for m in top.values())


@pytest.mark.parametrize("tasks", ["ab", "abc", "abcde"])
def test_equal_shares_are_chosen_by_turns(tasks):
    rng = np.random.default_rng(2)
    scores = {task: rng.random((6, 12)) for task in tasks}
    owned = owned_heads(scores, "even", None, 0)
    owners = np.sum(list(owned.values()), axis=0)
    assert [mask.sum() for mask in owned.values()] == [72 // len(tasks)] * len(tasks)
    assert owners.max() == 1 and (owners == 0).sum() == 72 % len(tasks)
    first = scores["a"].argmax()
    scores["b"].flat[first] = -1
    assert owned["a"].flat[first] and owned["b"].flat[scores["b"].argmax()]


def test_less_than_one_head_is_refused():
    with pytest.raises(ConfigError, match=r"alpha 0.01 of 72 heads is less than one head"):
        owned_heads(IMPORTANCES, "top", 0.01, 0)


# --- from the branch to the end


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[MultiTask, dict[float, dict], dict[str, np.ndarray]]:
    """A plainly trained model, its states before the last 0.3 and at the end, and importance at the first."""
    folder = tmp_path_factory.mktemp("trained")
    torch.set_num_threads(1)
    net, kept = model(), Checkpoint(folder / "kept.pt", "f", 0)
    train(net, SETUP, never(folder), trunk=kept, reserve=0.5)
    states = {}
    for delta in (0.0, 0.3):
        branched = model()
        states[delta] = deepcopy(branch(branched, SETUP, delta, kept.load(), never(folder)))
    frame = importance(branched, data(), 30, np.random.default_rng(0), CPU)
    return net, states, {task: importance_map(frame, task) for task in CLASSES}


def finish(trained, folder, alpha: float, heads: str = "top", delta: float = 0.3):
    _, states, importances = trained
    net, restriction = model(), Own(owned_heads(importances, heads, alpha, 0), "qkv")
    return net, retrain(net, SETUP, restriction, deepcopy(states[delta]), never(folder))


@pytest.mark.parametrize(("alpha", "delta"), [(1.0, 0.3), (0.3, 0.0)], ids=["all heads", "no steps left"])
def test_iat_that_restricts_nothing_is_plain_training_to_the_byte(trained, tmp_path, alpha, delta):
    net, frame = finish(trained, tmp_path, alpha, delta=delta)
    assert same(net, trained[0]) and len(frame) == 18


def test_heads_that_no_task_owns_do_not_change_after_the_branch(trained, tmp_path):
    net, _ = finish(trained, tmp_path, 0.3)
    state, masks = trained[1][0.3]["model"], owned_heads(trained[2], "top", 0.3, 0)
    names = {id(p): name for name, p in net.named_parameters()}
    anyone = np.any(list(masks.values()), axis=0)
    assert 0 < anyone.sum() < anyone.size
    for part in head_slices(net.gates, "qkv"):
        same = torch.equal(part.view(part.parameter), part.view(state[names[id(part.parameter)]]))
        assert same != bool((part.heads & anyone).any())


def test_the_same_batches_rates_and_dropout_as_plain_training(trained, tmp_path):
    """The first step after the branch has the same loss as in plain training."""
    assert len(trained[1][0.3]["history"]) == 18 - round(0.3 * 18) == 13
    _, all_owned = finish(trained, tmp_path, 1.0)
    for heads in ("top", "random", "bottom"):
        _, frame = finish(trained, tmp_path, 0.3, heads)
        assert frame["loss"][:14].tolist() == all_owned["loss"][:14].tolist()
        assert frame["loss"][14:].tolist() != all_owned["loss"][14:].tolist()
        assert frame[["task", "epoch", "learning_rate"]].equals(all_owned[["task", "epoch", "learning_rate"]])


def test_states_and_deltas_that_leave_no_branch_are_refused(trained, tmp_path):
    state = trained[1][0.3]
    with pytest.raises(ValueError, match="after step 13, expected at most step 9"):
        branch(model(), SETUP, 0.5, state, never(tmp_path))
    message = r"iat: delta 0.02 of 18 steps is less than one step; expected at least 0.028"
    with pytest.raises(ConfigError, match=message):
        branch(model(), SETUP, 0.02, state, never(tmp_path))


@pytest.mark.slow
def test_a_checkpoint_beyond_the_branch_without_its_state_is_not_continued(tmp_path):
    """Otherwise a run that was interrupted near its end would have no trunk."""
    torch.set_num_threads(1)
    every, kept = (Checkpoint(tmp_path / name, "f", 0) for name in ("c.pt", "kept.pt"))
    states = []
    for _ in range(2):
        train(model(), SETUP, every, trunk=kept, reserve=0.5)
        states.append(kept.load())
        kept.remove()
    first, again = states
    assert len(again["history"]) == 9
    assert all(torch.equal(v, again["model"][k]) for k, v in first["model"].items())
