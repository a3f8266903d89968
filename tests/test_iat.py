"""IAT: whose rows move, and that nothing else of an unowned head does."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from headspec.architectures import ARCHITECTURES
from headspec.errors import ConfigError
from headspec.iat import Own, OwnHeads, branch, owned_heads, retrain
from headspec.importance import importance
from headspec.maps import importance_map
from headspec.multitask import MultiTask
from headspec.projections import Slice, head_slices
from headspec.sections import Training
from headspec.training import Checkpoint, train, trainer
from headspec.updates import Updates
from tiny import CPU, HEADS, LAYERS, encoder, examples

SETTINGS = Training(batch_size=8, epochs=2, learning_rate=1e-3)
CLASSES = {"a": ["x", "y"], "b": ["x", "y", "z"]}


def model(kind: str = "bert", **settings) -> MultiTask:
    built = encoder(kind, **settings)
    torch.manual_seed(3)
    return MultiTask(built, "mean", CLASSES)


def data() -> dict:
    return {"a": examples(40, 2, 1), "b": examples(30, 3, 2)}


def never(folder) -> Checkpoint:
    return Checkpoint(folder / "checkpoint.pt", "f", 1e9)


def gradients(own: MultiTask, gates: torch.Tensor | None = None) -> None:
    """Of a batch's loss, in the weights; no dropout."""
    own.eval()
    own.gates.values = gates
    batch = examples(6).batch(np.arange(6))
    own.losses("a", own.pool(batch), batch.labels).sum().backward()
    own.gates.values = None


# --- what is whose


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_slices_are_those_of_their_heads(kind):
    """With every gate but one closed, exactly that head's slices have gradients."""
    own = model(kind)
    slices = head_slices(own.encoder, own.gates, "qkvo")
    layers, heads = own.gates.layers, own.gates.heads
    for layer, head in [(0, 0), (1, heads - 1), (layers - 1, 1)]:
        gates = torch.zeros(layers, heads)
        gates[layer, head] = 1
        own.zero_grad()
        gradients(own, gates)
        for part in slices:
            gradient = part.of(part.parameter.grad)
            if part.heads[layer, head]:
                # a bias of keys changes no attention
                assert gradient.abs().max() > 1e-9 or part.parameter.dim() == 1
            else:
                assert (gradient == 0).all(), (layer, head)


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_slices_cover_the_projections_once(kind):
    own = model(kind)
    slices = head_slices(own.encoder, own.gates, "qkvo")
    counts = {id(s.parameter): torch.zeros_like(s.parameter) for s in slices}
    for part in slices:
        part.of(counts[id(part.parameter)]).add_(1)
    assert all((count == 1).all() for count in counts.values())
    names = {id(p): name for name, p in own.encoder.named_parameters()}
    covered = {names[i] for i in counts}
    attentions = [re.match(r"(.*?\.)?[^.]*att[^.]*\.", name)[0] for name in own.gates.names]
    for name in names.values():
        inside = any(name.startswith(attention) for attention in attentions)
        other = "norm" in name.lower() or name in covered or name.removesuffix(".bias") in own.gates.names
        assert not inside or other, name
    assert set().union(*(zip(*np.nonzero(s.heads), strict=True) for s in slices)) == {
        (layer, head) for layer in range(own.gates.layers) for head in range(own.gates.heads)
    }


# --- what moves


def restricted(own: MultiTask, projections: str) -> tuple[OwnHeads, dict[str, np.ndarray]]:
    """After some plain steps: head 0 of each layer is task a's, head 1 task b's, the first layer's both's."""
    own.train()
    updates = Updates(own, Training(learning_rate=1e-3, weight_decay=0.1))
    for task in ("a", "b", "a"):
        step(own, updates, task)
    layers, heads = own.gates.layers, own.gates.heads
    owned = {task: np.zeros((layers, heads), dtype=bool) for task in CLASSES}
    owned["a"][:, 0] = owned["b"][:, 1] = owned["a"][0, 1] = True
    return OwnHeads(updates, head_slices(own.encoder, own.gates, projections), owned), owned


def backward(own: MultiTask, task: str) -> None:
    batch = examples(6).batch(np.arange(6))
    own.losses(task, own.pool(batch), batch.labels).mean().backward()


def step(own: MultiTask, updates, task: str) -> None:
    backward(own, task)
    updates.step(task, 1e-2)


def moments(updates: OwnHeads, part: Slice) -> list[torch.Tensor]:
    """Weights, and unless they are no task's, copy, moments and step count of a slice, copied."""
    found = [part.of(part.parameter.detach())]
    for share in updates.shares.values():
        places = [(id(other.parameter), other.start) for other in share.parts]
        if (id(part.parameter), part.start) in places:
            i = places.index((id(part.parameter), part.start))
            sizes, state = [weight.numel() for weight in share.weights], updates.optimizer.state[share.copy]
            found += [v.split(sizes)[i] for v in (share.copy, state["exp_avg"], state["exp_avg_sq"])]
            found.append(state["step"])
    return [value.clone() for value in found]


@pytest.mark.parametrize("projections", ["qkv", "qkvo"])
@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_rows_that_a_task_does_not_own_are_frozen_bit_by_bit(kind, projections):
    """With momentum from before, momentum from other tasks' steps, and weight decay."""
    own = model(kind)
    updates, owned = restricted(own, projections)
    step(own, updates, "b")
    slices = head_slices(own.encoder, own.gates, projections)
    attention = {id(part.parameter) for part in slices}
    outside = {name: p for name, p in own.named_parameters() if id(p) not in attention}
    for task in ("a", "b", "a"):
        before = [moments(updates, part) for part in slices]
        values = {name: p.detach().clone() for name, p in outside.items()}
        backward(own, task)
        learning = {name for name, p in outside.items() if p.grad is not None and p.grad.any()}
        updates.step(task, 1e-2)
        for part, (weights, *held) in zip(slices, before, strict=True):
            now, *after = moments(updates, part)
            same = [torch.equal(x, y) for x, y in zip([weights, *held], [now, *after], strict=True)]
            if (part.heads & owned[task]).any():
                assert after[3] == held[3] + 1  # the step count
                assert part.parameter.dim() == 1 or not any(same)
                assert torch.equal(now.flatten(), after[0])  # the copy is what the model computes with
            else:
                assert all(same)
        moved = {name for name, value in values.items() if not torch.equal(outside[name], value)}
        assert learning <= moved and any(name.startswith("encoder.") for name in learning)


def test_owned_rows_move_as_plain_adamw_moves_them():
    """Where every head is owned; the moments go on from those of plain training."""
    settings = Training(learning_rate=1e-3, weight_decay=0.1)
    found = []
    for restrict in (False, True):
        own = model(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0).train()
        updates = Updates(own, settings)
        for task in ("a", "b", "a"):
            step(own, updates, task)
        if restrict:
            everyone = {task: np.ones((own.gates.layers, own.gates.heads), dtype=bool) for task in CLASSES}
            updates = OwnHeads(updates, head_slices(own.encoder, own.gates, "qkvo"), everyone)
        for task in ("b", "a", "b"):
            step(own, updates, task)
        found.append(own.state_dict())
    for name, value in found[0].items():
        if not name.endswith("key.bias"):  # which changes no attention: its gradient is rounding
            torch.testing.assert_close(found[1][name], value, rtol=1e-4, atol=1e-6, msg=name)


def test_shared_layers_belong_to_whoever_owns_any_of_them():
    """ALBERT: one module is every layer, so a task that owns a head in one of them moves it in all."""
    own = model("albert")
    slices = head_slices(own.encoder, own.gates, "qkv")
    assert own.gates.layers == LAYERS and len({id(s.parameter) for s in slices}) == 6
    assert all(s.heads.sum() == LAYERS and s.heads.any(axis=0).sum() == 1 for s in slices)


def test_keys_and_values_of_a_group_belong_to_all_its_query_heads():
    own = model("llama")  # 4 query heads, 2 of keys and values
    counts = {}
    for part in head_slices(own.encoder, own.gates, "qkv"):
        counts.setdefault(int(part.heads.sum()), []).append(part)
    assert {n: len(parts) for n, parts in counts.items()} == {1: LAYERS * HEADS, 2: LAYERS * 2 * 2}


# --- whose heads


def maps() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {task: rng.random((6, 12)) for task in ("a", "b", "c")}


@pytest.mark.parametrize("heads", ["top", "bottom", "random", "random-by-layer", "other"])
def test_every_choice_has_as_many_heads(heads):
    found = owned_heads(maps(), heads, 0.3, 0)
    assert [mask.sum() for mask in found.values()] == [21, 21, 21]
    again, other = owned_heads(maps(), heads, 0.3, 0), owned_heads(maps(), heads, 0.3, 1)
    assert all((again[task] == found[task]).all() for task in found)
    if heads.startswith("random"):
        assert any((other[task] != found[task]).any() for task in found)
        assert (found["a"] != found["b"]).any()


def test_choices_are_what_they_say():
    top = owned_heads(maps(), "top", 0.3, 0)
    for task, scores in maps().items():
        threshold = np.sort(scores.ravel())[-21]
        assert ((scores >= threshold) == top[task]).all()
        assert not (owned_heads(maps(), "bottom", 0.3, 0)[task] & top[task]).any()
        by_layer = owned_heads(maps(), "random-by-layer", 0.3, 0)[task]
        assert (by_layer.sum(axis=1) == top[task].sum(axis=1)).all() and (by_layer != top[task]).any()
    for seed in range(6):
        other = owned_heads(maps(), "other", 0.3, seed)
        assert all((other[task] != top[task]).any() for task in top)
        assert sorted(m.tobytes() for m in other.values()) == sorted(m.tobytes() for m in top.values())


def test_no_head_is_refused():
    with pytest.raises(ConfigError, match=r"alpha 0.01 of 6 x 12 heads is no head"):
        owned_heads(maps(), "top", 0.01, 0)


# --- from the branch to the end


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[MultiTask, Path, dict[str, np.ndarray]]:
    """Plain training to its end, its state before the last 0.3, and importance there."""
    folder = tmp_path_factory.mktemp("trained")
    torch.set_num_threads(1)
    own, kept = model(), Checkpoint(folder / "kept.pt", "f", 0)
    train(own, data(), SETTINGS, None, 7, CPU, never(folder), trunk=kept, reserve=0.5)
    state = torch.load(kept.path, weights_only=True)
    at = model()
    before = Checkpoint(folder / "state.pt", "f", 0)
    before.save(branch(at, data(), SETTINGS, 0.3, 7, CPU, state, never(folder)))
    frame = importance(at, data(), 30, np.random.default_rng(0), CPU)
    return own, before.path, {task: importance_map(frame, task) for task in CLASSES}


def finish(trained, folder, alpha: float, heads: str = "top", kind: str = "qkv", own=None, checkpoint=None):
    _, path, maps = trained
    state = torch.load(path, weights_only=True)
    own = own or model()
    restriction = Own(owned_heads(maps, heads, alpha, 0), kind)
    frame = retrain(own, data(), SETTINGS, restriction, 7, CPU, state, checkpoint or never(folder))
    return own, frame


def equal(one: MultiTask, other: MultiTask) -> bool:
    state = other.state_dict()
    return all(torch.equal(value, state[name]) for name, value in one.state_dict().items())


def test_the_branch_is_where_it_should_be(trained):
    steps = 2 * (5 + 4)  # epochs of 5 and 4 batches
    assert len(torch.load(trained[1])["history"]) == steps - round(0.3 * steps) == 13


def test_all_heads_owned_is_plain_training_to_the_byte(trained, tmp_path):
    own, frame = finish(trained, tmp_path, 1.0)
    assert equal(own, trained[0]) and len(frame) == 18


def test_no_steps_left_is_plain_training_to_the_byte(trained, tmp_path):
    plain, path, maps = trained
    state, end = torch.load(path), Checkpoint(tmp_path / "end.pt", "f", 0)
    end.save(branch(model(), data(), SETTINGS, 0, 7, CPU, state, never(tmp_path)))
    own, frame = finish((plain, end.path, maps), tmp_path, 0.3)
    assert equal(own, plain) and len(frame) == 18


def test_heads_that_nobody_owns_stay_as_they_were_at_the_branch(trained, tmp_path):
    own, _ = finish(trained, tmp_path, 0.3)
    assert not equal(own, trained[0])
    state, masks = torch.load(trained[1])["model"], owned_heads(trained[2], "top", 0.3, 0)
    names = {id(p): name for name, p in own.named_parameters()}
    anyone = np.any(list(masks.values()), axis=0)
    assert 0 < anyone.sum() < anyone.size
    for part in head_slices(own.encoder, own.gates, "qkv"):
        same = torch.equal(part.of(part.parameter), part.of(state[names[id(part.parameter)]]))
        assert same != bool((part.heads & anyone).any())


def test_the_same_batches_rates_and_dropout_as_plain_training(trained, tmp_path):
    """The first step after the branch has the loss that plain training has there."""
    _, all_owned = finish(trained, tmp_path, 1.0)
    for heads in ("top", "random", "bottom"):
        _, frame = finish(trained, tmp_path, 0.3, heads)
        assert frame["loss"][:14].tolist() == all_owned["loss"][:14].tolist()
        assert frame["loss"][14:].tolist() != all_owned["loss"][14:].tolist()
        assert frame[["task", "epoch", "learning_rate"]].equals(all_owned[["task", "epoch", "learning_rate"]])


def test_scoring_heads_leaves_nothing_behind(trained):
    """No gradients of the importance pass, dropout on, gates open, randomness where it was."""
    own = model()
    with trainer(own, data(), SETTINGS, None, 7, CPU) as run:
        before = torch.get_rng_state()
        importance(own, run.examples, 20, np.random.default_rng(0), CPU)
        assert torch.equal(before, torch.get_rng_state())
        assert own.training and own.gates.values is None
        assert all(p.grad is None and p.requires_grad for p in own.parameters())


@pytest.mark.parametrize("kind", ["qkv", "qkvo"])
def test_interrupted_retraining_gives_the_same_bytes(trained, tmp_path, monkeypatch, kind):
    undisturbed, _ = finish(trained, tmp_path, 0.3, kind=kind)
    save = Checkpoint.save

    def save_then_die(self, state):
        save(self, state)
        if len(state["history"]) == 15:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "save", save_then_die)
    every = Checkpoint(tmp_path / "c.pt", "f", 0)
    with pytest.raises(KeyboardInterrupt):
        finish(trained, tmp_path, 0.3, kind=kind, checkpoint=every)
    monkeypatch.undo()
    resumed, _ = finish(trained, tmp_path, 0.3, kind=kind, checkpoint=every)
    assert equal(undisturbed, resumed)


def test_a_state_after_the_branch_is_not_gone_back_from(trained, tmp_path):
    state = torch.load(trained[1])
    with pytest.raises(ValueError, match="after step 13, expected 9 at most"):
        branch(model(), data(), SETTINGS, 0.5, 7, CPU, state, never(tmp_path))


def test_a_delta_of_no_step_is_refused(trained, tmp_path):
    with pytest.raises(ConfigError, match=r"iat: delta 0.02 of 18 steps is no step; expected at least 0.028"):
        branch(model(), data(), SETTINGS, 0.02, 7, CPU, torch.load(trained[1]), never(tmp_path))


def test_what_everyone_trains_gets_the_gradients_of_plain_training():
    """Also where they are clipped: by the norm of all of them."""
    found = []
    for restrict in (False, True):
        own = model(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0).train()
        updates = Updates(own, Training(learning_rate=1e-3, clip=1e-3))
        step(own, updates, "b")
        if restrict:
            masks = {task: np.eye(LAYERS, HEADS, dtype=bool) for task in CLASSES}
            updates = OwnHeads(updates, head_slices(own.encoder, own.gates, "qkv"), masks)
        step(own, updates, "b")
        attention = {id(p) for layer in own.encoder.encoder.layer for p in layer.attention.self.parameters()}
        found.append({name: p for name, p in own.named_parameters() if id(p) not in attention})
    for name, value in found[0].items():
        torch.testing.assert_close(found[1][name], value, rtol=1e-6, atol=1e-8, msg=name)


def test_a_checkpoint_beyond_the_branch_without_its_state_is_not_continued(tmp_path):
    """Else a run that was interrupted near its end would have no trunk."""
    torch.set_num_threads(1)
    every = Checkpoint(tmp_path / "c.pt", "f", 0)
    kept = Checkpoint(tmp_path / "kept.pt", "f", 0)
    train(model(), data(), SETTINGS, None, 7, CPU, every, trunk=kept, reserve=0.5)
    first = torch.load(kept.path, weights_only=True)
    kept.remove()
    train(model(), data(), SETTINGS, None, 7, CPU, every, trunk=kept, reserve=0.5)
    again = torch.load(kept.path, weights_only=True)
    assert len(again["history"]) == 9
    assert all(torch.equal(v, again["model"][k]) for k, v in first["model"].items())
