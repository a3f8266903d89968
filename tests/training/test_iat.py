"""IAT: a batch updates the heads that its task owns, and nothing else in the projections."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from headspec.config.sections.training import Training
from headspec.errors import ConfigError
from headspec.heads.importance import importance
from headspec.heads.ranking import importance_map
from headspec.models.head_parameters import Slice, head_slices
from headspec.models.multitask import MultiTask
from headspec.training.checkpoint import Checkpoint
from headspec.training.iat import branch, retrain
from headspec.training.loop import Setup, train, trainer
from headspec.training.updates import Updates
from headspec.training.variants.own import Own, OwnHeads
from headspec.training.variants.owned import owned_heads
from support.tiny import CPU, HEADS, LAYERS, by_family, examples
from support.two_tasks import CLASSES, data, model, never, same

SETTINGS = Training(batch_size=8, epochs=2, learning_rate=1e-3)
SETUP = Setup(data(), SETTINGS, 7, CPU)


def gradients(net: MultiTask, gates: torch.Tensor | None = None) -> None:
    """Compute the gradients of a batch's loss, without dropout."""
    net.eval()
    net.gates.values = gates
    batch = examples(6).batch(np.arange(6))
    net.losses("a", net.pool(batch), batch.labels).sum().backward()
    net.gates.values = None


# --- slices of heads


@pytest.mark.parametrize("kind", by_family())
def test_slices_are_those_of_their_heads(kind):
    """With every gate but one closed, exactly that head's slices have gradients."""
    net = model(kind)
    slices = head_slices(net.gates, "qkvo")
    layers, heads = net.gates.layers, net.gates.heads
    for layer, head in [(0, 0), (1, heads - 1), (layers - 1, 1)]:
        gates = torch.zeros(layers, heads)
        gates[layer, head] = 1
        net.zero_grad()
        gradients(net, gates)
        for part in slices:
            gradient = part.view(part.parameter.grad)
            if part.heads[layer, head]:
                # a bias of keys does not change attention
                assert gradient.abs().max() > 1e-9 or part.parameter.dim() == 1
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
    names = {id(p): name for name, p in net.encoder.named_parameters()}
    covered = {names[i] for i in counts}
    attentions = [re.match(r"(.*?\.)?[^.]*att[^.]*\.", f"{site.name}.")[0] for site in net.gates.sites]
    biases = {names[id(site.output.bias)] for site in net.gates.sites if site.output.bias is not None}
    for name in names.values():
        inside = any(name.startswith(attention) for attention in attentions)
        other = "norm" in name.lower() or name in covered or name in biases
        assert not inside or other, name
    assert set().union(*(zip(*np.nonzero(s.heads), strict=True) for s in slices)) == {
        (layer, head) for layer in range(net.gates.layers) for head in range(net.gates.heads)
    }


# --- what is updated


def restricted(net: MultiTask, projections: str) -> tuple[OwnHeads, dict[str, np.ndarray]]:
    """After plain steps: task a owns head 0 of each layer and head 1 of the first, task b head 1 of each."""
    net.train()
    updates = Updates(net, Training(learning_rate=1e-3, weight_decay=0.1))
    for task in ("a", "b", "a"):
        step(net, updates, task)
    layers, heads = net.gates.layers, net.gates.heads
    owned = {task: np.zeros((layers, heads), dtype=bool) for task in CLASSES}
    owned["a"][:, 0] = owned["b"][:, 1] = owned["a"][0, 1] = True
    return OwnHeads(updates, head_slices(net.gates, projections), owned), owned


def backward(net: MultiTask, task: str) -> None:
    batch = examples(6).batch(np.arange(6))
    net.losses(task, net.pool(batch), batch.labels).mean().backward()


def step(net: MultiTask, updates, task: str) -> None:
    backward(net, task)
    updates.step(task, 1e-2)


def moments(updates: OwnHeads, part: Slice) -> list[torch.Tensor]:
    """Clones of a slice's weights, and if a task owns it, of its copy, moments and step count."""
    values = [part.view(part.parameter.detach())]
    for group in updates.groups.values():
        places = [(id(other.parameter), other.start) for other in group.slices]
        if (id(part.parameter), part.start) in places:
            i = places.index((id(part.parameter), part.start))
            sizes, state = [weight.numel() for weight in group.weights], updates.optimizer.state[group.copy]
            values += [v.split(sizes)[i] for v in (group.copy, state["exp_avg"], state["exp_avg_sq"])]
            values.append(state["step"])
    return [value.clone() for value in values]


@pytest.mark.parametrize("projections", ["qkv", "qkvo"])
@pytest.mark.parametrize("kind", by_family())
def test_rows_that_a_task_does_not_own_are_frozen_bit_by_bit(kind, projections):
    """Despite momentum from plain training, momentum from other tasks' steps, and weight decay."""
    net = model(kind)
    updates, owned = restricted(net, projections)
    step(net, updates, "b")
    slices = head_slices(net.gates, projections)
    attention = {id(part.parameter) for part in slices}
    outside = {name: p for name, p in net.named_parameters() if id(p) not in attention}
    for task in ("a", "b", "a"):
        before = [moments(updates, part) for part in slices]
        values = {name: p.detach().clone() for name, p in outside.items()}
        backward(net, task)
        learning = {name for name, p in outside.items() if p.grad is not None and p.grad.any()}
        updates.step(task, 1e-2)
        for part, (weights, *held) in zip(slices, before, strict=True):
            now, *after = moments(updates, part)
            same = [torch.equal(x, y) for x, y in zip([weights, *held], [now, *after], strict=True)]
            if (part.heads & owned[task]).any():
                assert after[3] == held[3] + 1  # the step count
                assert part.parameter.dim() == 1 or not any(same)
                assert torch.equal(now.flatten(), after[0])  # copy and model agree
            else:
                assert all(same)
        moved = {name for name, value in values.items() if not torch.equal(outside[name], value)}
        assert learning <= moved and any(name.startswith("encoder.") for name in learning)


def test_owned_rows_move_as_plain_adamw_moves_them():
    """If every head is owned; the moments continue those of plain training."""
    settings = Training(learning_rate=1e-3, weight_decay=0.1)
    results = []
    for restrict in (False, True):
        net = model(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0).train()
        updates = Updates(net, settings)
        for task in ("a", "b", "a"):
            step(net, updates, task)
        if restrict:
            everyone = {task: np.ones((net.gates.layers, net.gates.heads), dtype=bool) for task in CLASSES}
            updates = OwnHeads(updates, head_slices(net.gates, "qkvo"), everyone)
        for task in ("b", "a", "b"):
            step(net, updates, task)
        results.append(net.state_dict())
    for name, value in results[0].items():
        if not name.endswith("key.bias"):  # does not change attention: its gradient is rounding error
            torch.testing.assert_close(results[1][name], value, rtol=1e-4, atol=1e-6, msg=name)


def test_a_shared_layer_belongs_to_every_task_that_owns_a_head_in_it():
    """ALBERT: all layers are one module, so a head that a task owns in one layer is updated in all."""
    net = model("albert")
    slices = head_slices(net.gates, "qkv")
    assert net.gates.layers == LAYERS and len({id(s.parameter) for s in slices}) == 6
    assert all(s.heads.sum() == LAYERS and s.heads.any(axis=0).sum() == 1 for s in slices)


def test_keys_and_values_of_a_group_belong_to_all_its_query_heads():
    net = model("llama")  # 4 query heads, 2 of keys and values
    by_heads = {}
    for part in head_slices(net.gates, "qkv"):
        by_heads.setdefault(int(part.heads.sum()), []).append(part)
    assert {n: len(slices) for n, slices in by_heads.items()} == {1: LAYERS * HEADS, 2: LAYERS * 2 * 2}


# --- heads that tasks own


def importances() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {task: rng.random((6, 12)) for task in ("a", "b", "c")}


@pytest.mark.parametrize("heads", ["top", "bottom", "random", "random-by-layer", "other"])
def test_every_choice_has_the_same_number_of_heads(heads):
    owned = owned_heads(importances(), heads, 0.3, 0)
    assert [mask.sum() for mask in owned.values()] == [21, 21, 21]
    again, other = owned_heads(importances(), heads, 0.3, 0), owned_heads(importances(), heads, 0.3, 1)
    assert all((again[task] == owned[task]).all() for task in owned)
    if heads.startswith("random"):
        assert any((other[task] != owned[task]).any() for task in owned)
        assert (owned["a"] != owned["b"]).any()


def test_choices_match_their_names():
    top = owned_heads(importances(), "top", 0.3, 0)
    for task, scores in importances().items():
        threshold = np.sort(scores.ravel())[-21]
        assert ((scores >= threshold) == top[task]).all()
        assert not (owned_heads(importances(), "bottom", 0.3, 0)[task] & top[task]).any()
        by_layer = owned_heads(importances(), "random-by-layer", 0.3, 0)[task]
        assert (by_layer.sum(axis=1) == top[task].sum(axis=1)).all() and (by_layer != top[task]).any()
    for seed in range(6):
        other = owned_heads(importances(), "other", 0.3, seed)
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
    assert owned["a"].flat[first]
    second = [head for head in (-scores["b"]).argsort(axis=None) if head != first][0]
    assert owned["b"].flat[second]


def test_less_than_one_head_is_refused():
    with pytest.raises(ConfigError, match=r"alpha 0.01 of 72 heads is less than one head"):
        owned_heads(importances(), "top", 0.01, 0)


# --- from the branch to the end


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[MultiTask, Path, dict[str, np.ndarray]]:
    """A plainly trained model, the path of its state before the last 0.3, and importance there."""
    folder = tmp_path_factory.mktemp("trained")
    torch.set_num_threads(1)
    net, kept = model(), Checkpoint(folder / "kept.pt", "f", 0)
    train(net, SETUP, never(folder), trunk=kept, reserve=0.5)
    state = torch.load(kept.path, weights_only=True)
    branched, point = model(), Checkpoint(folder / "state.pt", "f", 0)
    point.save(branch(branched, SETUP, 0.3, state, never(folder)))
    frame = importance(branched, data(), 30, np.random.default_rng(0), CPU)
    return net, point.path, {task: importance_map(frame, task) for task in CLASSES}


def finish(trained, folder, alpha: float, heads: str = "top"):
    _, path, importances = trained
    net, restriction = model(), Own(owned_heads(importances, heads, alpha, 0), "qkv")
    return net, retrain(net, SETUP, restriction, torch.load(path, weights_only=True), never(folder))


def test_the_branch_is_where_it_should_be(trained):
    steps = 2 * (5 + 4)  # epochs of 5 and 4 batches
    assert len(torch.load(trained[1])["history"]) == steps - round(0.3 * steps) == 13


def test_all_heads_owned_is_plain_training_to_the_byte(trained, tmp_path):
    net, frame = finish(trained, tmp_path, 1.0)
    assert same(net, trained[0]) and len(frame) == 18


def test_no_steps_left_is_plain_training_to_the_byte(trained, tmp_path):
    plain, path, importances = trained
    state, end = torch.load(path), Checkpoint(tmp_path / "end.pt", "f", 0)
    end.save(branch(model(), SETUP, 0, state, never(tmp_path)))
    net, frame = finish((plain, end.path, importances), tmp_path, 0.3)
    assert same(net, plain) and len(frame) == 18


def test_heads_that_no_task_owns_do_not_change_after_the_branch(trained, tmp_path):
    net, _ = finish(trained, tmp_path, 0.3)
    state, masks = torch.load(trained[1])["model"], owned_heads(trained[2], "top", 0.3, 0)
    names = {id(p): name for name, p in net.named_parameters()}
    anyone = np.any(list(masks.values()), axis=0)
    assert 0 < anyone.sum() < anyone.size
    for part in head_slices(net.gates, "qkv"):
        same = torch.equal(part.view(part.parameter), part.view(state[names[id(part.parameter)]]))
        assert same != bool((part.heads & anyone).any())


def test_the_same_batches_rates_and_dropout_as_plain_training(trained, tmp_path):
    """The first step after the branch has the same loss as in plain training."""
    _, all_owned = finish(trained, tmp_path, 1.0)
    for heads in ("top", "random", "bottom"):
        _, frame = finish(trained, tmp_path, 0.3, heads)
        assert frame["loss"][:14].tolist() == all_owned["loss"][:14].tolist()
        assert frame["loss"][14:].tolist() != all_owned["loss"][14:].tolist()
        assert frame[["task", "epoch", "learning_rate"]].equals(all_owned[["task", "epoch", "learning_rate"]])


def test_scoring_heads_leaves_nothing_behind(trained):
    """No gradients, dropout on, gates open, and the random state unchanged."""
    net = model()
    with trainer(net, SETUP) as run:
        before = torch.get_rng_state()
        importance(net, run.examples, 20, np.random.default_rng(0), CPU)
        assert torch.equal(before, torch.get_rng_state())
        assert net.training and net.gates.values is None
        assert all(p.grad is None and p.requires_grad for p in net.parameters())


def test_a_state_after_the_branch_is_refused(trained, tmp_path):
    state = torch.load(trained[1])
    with pytest.raises(ValueError, match="after step 13, expected at most step 9"):
        branch(model(), SETUP, 0.5, state, never(tmp_path))


def test_a_delta_of_less_than_one_step_is_refused(trained, tmp_path):
    with pytest.raises(
        ConfigError, match=r"iat: delta 0.02 of 18 steps is less than one step; expected at least 0.028"
    ):
        branch(model(), SETUP, 0.02, torch.load(trained[1]), never(tmp_path))


def test_unrestricted_parameters_move_as_in_plain_training():
    """Even with clipping, which uses the norm over all parameters."""
    results = []
    for restrict in (False, True):
        net = model(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0).train()
        updates = Updates(net, Training(learning_rate=1e-3, clip=1e-3))
        step(net, updates, "b")
        if restrict:
            masks = {task: np.eye(LAYERS, HEADS, dtype=bool) for task in CLASSES}
            updates = OwnHeads(updates, head_slices(net.gates, "qkv"), masks)
        step(net, updates, "b")
        attention = {id(p) for layer in net.encoder.encoder.layer for p in layer.attention.self.parameters()}
        results.append({name: p for name, p in net.named_parameters() if id(p) not in attention})
    for name, value in results[0].items():
        torch.testing.assert_close(results[1][name], value, rtol=1e-6, atol=1e-8, msg=name)


@pytest.mark.slow
def test_a_checkpoint_beyond_the_branch_without_its_state_is_not_continued(tmp_path):
    """Otherwise a run that was interrupted near its end would have no trunk."""
    torch.set_num_threads(1)
    every = Checkpoint(tmp_path / "c.pt", "f", 0)
    kept = Checkpoint(tmp_path / "kept.pt", "f", 0)
    train(model(), SETUP, every, trunk=kept, reserve=0.5)
    first = torch.load(kept.path, weights_only=True)
    kept.remove()
    train(model(), SETUP, every, trunk=kept, reserve=0.5)
    again = torch.load(kept.path, weights_only=True)
    assert len(again["history"]) == 9
    assert all(torch.equal(v, again["model"][k]) for k, v in first["model"].items())
