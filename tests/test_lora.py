"""LoRA as the control of IAT: what learns, how much of it, and that an ordinary model is left."""

from __future__ import annotations

from contextlib import nullcontext
from copy import deepcopy

import numpy as np
import pytest
import torch

from headspec.architectures import ARCHITECTURES
from headspec.errors import ConfigError
from headspec.gates import HeadGates
from headspec.iat import branch, retrain
from headspec.lora import LoRA
from headspec.multitask import MultiTask
from headspec.projections import head_slices
from headspec.sections import Training
from headspec.training import Checkpoint, Trainer, trainer
from tiny import CPU, HEADS, LAYERS, encoder, examples

CLASSES = {"a": ["x", "y"], "b": ["x", "y", "z"]}
SETTINGS = Training(batch_size=8, epochs=2, learning_rate=1e-3, clip=1e6)  # no step is clipped
SEED = 7


def model(kind: str = "bert", **settings) -> MultiTask:
    built = encoder(kind, **settings)
    torch.manual_seed(3)
    return MultiTask(built, "mean", CLASSES)


def data() -> dict:
    return {"a": examples(40, 2, 1), "b": examples(30, 3, 2)}


def never(folder) -> Checkpoint:
    return Checkpoint(folder / "checkpoint.pt", "f", 1e9)


def heads(own: MultiTask, n: int = 4) -> dict[str, np.ndarray]:
    """The first `n` heads for one task, the last `n` for the other."""
    first = np.arange(own.gates.layers * own.gates.heads).reshape(own.gates.layers, -1) < n
    return {"a": first, "b": first[::-1, ::-1]}


def lora(own: MultiTask, projections: str = "qkv", n: int = 4) -> LoRA:
    return LoRA(heads(own, n), projections, SEED)


def branched(own: MultiTask, folder) -> dict:
    """The state of plain training before its last half."""
    torch.set_num_threads(1)
    return branch(own, data(), SETTINGS, 0.5, SEED, CPU, trunk(own), never(folder))


def trunk(own: MultiTask) -> dict:
    with trainer(own, data(), SETTINGS, None, SEED, CPU) as run:
        return run.state()


@torch.no_grad()
def outputs(own: MultiTask, gates: torch.Tensor | None = None) -> torch.Tensor:
    own.eval()
    own.gates.values = gates
    found = own.pool(examples(6).batch(np.arange(6)))
    own.gates.values = None
    own.train()
    return found


def values(own: MultiTask) -> dict[str, torch.Tensor]:
    """Weights under the names that they have without adapters."""
    return {
        name.replace(".base_layer", ""): parameter.detach().clone()
        for name, parameter in own.named_parameters()
        if "lora_" not in name
    }


def adapters(run: Trainer) -> dict[str, torch.Tensor]:
    return {name: p for name, p in run.model.named_parameters() if "lora_" in name}


@pytest.mark.parametrize("projections", ["qkv", "qkvo"])
@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_adapters_learn_in_place_of_the_projections(tmp_path, kind, projections):
    """Through a run: the same model at first, then everything moves but the projections, then merged."""
    own = model(kind)
    state = branched(own, tmp_path)
    slices = head_slices(own.encoder, own.gates, projections)
    fixed = {name for name, p in own.named_parameters() if any(p is s.parameter for s in slices)}
    names = [name for name, _ in own.named_parameters()]
    with trainer(own, data(), SETTINGS, None, SEED, CPU) as run:
        run.restore(state)
        before, plain = values(own), outputs(own)
        with lora(own, projections).applied(run):
            assert torch.equal(outputs(own), plain)
            learning = {n.replace(".base_layer", "") for n, p in own.named_parameters() if p.requires_grad}
            assert learning == set(names) - fixed | set(adapters(run))
            drawn = {name: value.detach().clone() for name, value in adapters(run).items()}
            run.run(len(run.steps), never(tmp_path))
            for name, value in values(own).items():
                assert torch.equal(value, before[name]) == (name in fixed or not used(run, name)), name
            assert not any(torch.equal(value, drawn[name]) for name, value in adapters(run).items())
            adapted = outputs(own)
        assert not torch.allclose(adapted, plain, atol=1e-4)
        torch.testing.assert_close(outputs(own), adapted, rtol=1e-4, atol=1e-4)
    assert [name for name, _ in own.named_parameters()] == names
    assert all(p.requires_grad for p in own.parameters())


def used(run: Trainer, name: str) -> bool:
    """Whether losses depend on a weight: there are poolers that nothing reads, and biases of keys."""
    parameter = dict(run.model.named_parameters()).get(name)
    return parameter is None or parameter in run.updates.optimizer.state


@pytest.mark.parametrize("projections", ["qkv", "qkvo"])
@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_as_many_parameters_as_iat_moves(tmp_path, kind, projections):
    """Within half a rank, the mean over tasks of the parts that belong to one of the task's heads."""
    own = model(kind)
    owned = heads(own)
    slices = head_slices(own.encoder, own.gates, projections)
    aim = np.mean([
        sum(p.of(p.parameter.detach()).numel() for p in slices if (p.heads & mask).any())
        for mask in owned.values()
    ])  # fmt: skip
    with trainer(own, data(), SETTINGS, None, SEED, CPU) as run, lora(own, projections).applied(run):
        found = adapters(run)
        (rank,) = {min(p.shape) for p in found.values()}
        count = sum(p.numel() for p in found.values())
        assert abs(count - aim) <= count / rank / 2
        matrices = {id(s.parameter) for s in slices if s.parameter.dim() == 2}
        assert len(found) == 2 * len(matrices)


def test_rank_in_closed_form(caplog):
    """A third of the heads of three layers, each 3 matrices (32, 32) with biases: 3 x 32 x 33 of 9 x 64 r."""
    own = model()
    with trainer(own, data(), SETTINGS, None, SEED, CPU) as run, lora(own).applied(run):
        assert {min(p.shape) for p in adapters(run).values()} == {round(3 * 32 * 33 / (9 * 64))}


def test_what_is_too_small_is_refused():
    own = model(hidden_size=4, intermediate_size=4, num_hidden_layers=1)
    with (
        trainer(own, data(), SETTINGS, None, SEED, CPU) as run,
        pytest.raises(ConfigError, match="iat.alpha"),
        lora(own, n=0).applied(run),
    ):
        pass


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_the_rest_trains_as_without_adapters(tmp_path, kind):
    """A step, in which B is still zero, moves it to the same bits, moments included."""
    own = model(kind)
    state = branched(own, tmp_path)
    found = []
    for restriction in (nullcontext, lora(own).applied):
        own = model(kind)
        with trainer(own, data(), SETTINGS, None, SEED, CPU) as run:
            run.restore(deepcopy(state))  # whose moments go on being the optimizer's
            with restriction(run):
                run.run(len(run.history) + 1, never(tmp_path))
                fixed = {name for name, p in own.named_parameters() if not p.requires_grad}
                found.append((values(own), run.history[-1][:5], torch.get_rng_state()))
    (plain, row, randomness), (others, own_row, own_randomness) = found
    assert row == own_row and torch.equal(randomness, own_randomness)
    for name, value in plain.items():
        if name.replace(".weight", ".base_layer.weight").replace(".bias", ".base_layer.bias") in fixed:
            assert not torch.equal(value, others[name]), name
        else:
            assert torch.equal(value, others[name]), name


def test_adapters_are_drawn_from_the_seed(tmp_path):
    drawn = []
    for seed in (7, 7, 8):
        own = model()
        with trainer(own, data(), SETTINGS, None, 1, CPU) as run, LoRA(heads(own), "qkv", seed).applied(run):
            drawn.append(next(p.detach().clone() for name, p in adapters(run).items() if "lora_A" in name))
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])


class Killed(Exception):
    pass


def test_resumed_adapters_end_in_the_same_weights(tmp_path, monkeypatch):
    state = branched(model(), tmp_path)

    def trained(seconds: float = 1e9) -> dict[str, torch.Tensor]:
        own = model()
        checkpoint = Checkpoint(tmp_path / "lora.pt", "f", seconds)
        retrain(own, data(), SETTINGS, lora(own), SEED, CPU, deepcopy(state), checkpoint)
        return own.state_dict()

    undisturbed = trained()
    save = Checkpoint.save

    def save_then_die(self, state):
        save(self, state)
        if len(state["history"]) == 15:
            raise Killed

    monkeypatch.setattr(Checkpoint, "save", save_then_die)
    with pytest.raises(Killed):
        trained(seconds=0)
    monkeypatch.undo()
    resumed = trained()
    assert undisturbed.keys() == resumed.keys() == model().state_dict().keys()
    assert all(torch.equal(value, resumed[name]) for name, value in undisturbed.items())


@pytest.mark.parametrize("kind", ["bert", "albert", "gpt2"])
def test_the_saved_model_is_an_ordinary_one(tmp_path, kind):
    """It loads, gives the same outputs, and its gates, checked as it loads, are in force."""
    own = model(kind)
    state = branched(own, tmp_path)
    retrain(own, data(), SETTINGS, lora(own, "qkvo"), SEED, CPU, state, never(tmp_path))
    own.save(tmp_path / "model")
    loaded = MultiTask.load(tmp_path / "model")
    gates = torch.ones(LAYERS, HEADS)
    gates[1, 2] = 0
    for values in (None, gates):
        torch.testing.assert_close(outputs(own, values), outputs(loaded, values))
    assert not torch.allclose(outputs(own, gates), outputs(own))
    HeadGates(own.encoder)  # refuses gates that are not what they say
