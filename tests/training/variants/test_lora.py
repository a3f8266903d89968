"""LoRA as the control of IAT: what is trained, its size, and the merged model."""

from contextlib import nullcontext
from copy import deepcopy

import numpy as np
import pytest
import torch

from headspec.config.sections.training import Training
from headspec.errors import ConfigError
from headspec.models.gates import HeadGates
from headspec.models.head_parameters import head_slices
from headspec.models.multitask import MultiTask
from headspec.training.iat import branch, retrain
from headspec.training.loop import Setup, Trainer, trainer
from headspec.training.variants.lora import LoRA
from support.tiny import CPU, HEADS, LAYERS, by_family, examples
from support.two_tasks import data, model, never

SETTINGS = Training(batch_size=8, epochs=2, learning_rate=1e-3, clip=1e6)  # never reached
SEED = 7
SETUP = Setup(data(), SETTINGS, SEED, CPU)


def heads(net: MultiTask, n: int = 4) -> dict[str, np.ndarray]:
    """The first `n` heads for one task, the last `n` for the other."""
    first = np.arange(net.gates.layers * net.gates.heads).reshape(net.gates.layers, -1) < n
    return {"a": first, "b": first[::-1, ::-1]}


def lora(net: MultiTask, projections: str = "qkv", n: int = 4) -> LoRA:
    return LoRA(heads(net, n), projections, SEED)


def branched(net: MultiTask, folder) -> dict:
    """The state of plain training before its last half."""
    torch.set_num_threads(1)
    return branch(net, SETUP, 0.5, trunk(net), never(folder))


def trunk(net: MultiTask) -> dict:
    with trainer(net, SETUP) as run:
        return run.state()


@torch.no_grad()
def outputs(net: MultiTask, gates: torch.Tensor | None = None) -> torch.Tensor:
    net.eval()
    net.gates.values = gates
    pooled = net.pool(examples(6).batch(np.arange(6)))
    net.gates.values = None
    net.train()
    return pooled


def values(net: MultiTask) -> dict[str, torch.Tensor]:
    """Weights, named as without adapters."""
    return {
        name.replace(".base_layer", ""): parameter.detach().clone()
        for name, parameter in net.named_parameters()
        if "lora_" not in name
    }


def adapters(run: Trainer) -> dict[str, torch.Tensor]:
    return {name: p for name, p in run.model.named_parameters() if "lora_" in name}


@pytest.mark.parametrize("projections", ["qkv", "qkvo"])
@pytest.mark.parametrize("kind", by_family())
def test_adapters_train_in_place_of_the_projections(tmp_path, kind, projections):
    """Adapters do not change the initial outputs; all but the projections is trained; adapters are merged."""
    net = model(kind)
    state = branched(net, tmp_path)
    slices = head_slices(net.gates, projections)
    fixed = {name for name, p in net.named_parameters() if any(p is s.parameter for s in slices)}
    names = [name for name, _ in net.named_parameters()]
    with trainer(net, SETUP) as run:
        run.restore(state)
        before, plain = values(net), outputs(net)
        with lora(net, projections).applied(run):
            assert torch.equal(outputs(net), plain)
            learning = {n.replace(".base_layer", "") for n, p in net.named_parameters() if p.requires_grad}
            assert learning == set(names) - fixed | set(adapters(run))
            drawn = {name: value.detach().clone() for name, value in adapters(run).items()}
            run.run(len(run.steps), never(tmp_path))
            for name, value in values(net).items():
                assert torch.equal(value, before[name]) == (name in fixed or not used(run, name)), name
            assert not any(torch.equal(value, drawn[name]) for name, value in adapters(run).items())
            adapted = outputs(net)
        assert not torch.allclose(adapted, plain, atol=1e-4)
        torch.testing.assert_close(outputs(net), adapted, rtol=1e-4, atol=1e-4)
    assert [name for name, _ in net.named_parameters()] == names
    assert all(p.requires_grad for p in net.parameters())


def used(run: Trainer, name: str) -> bool:
    """Whether the loss depends on a weight; it does not on unused poolers."""
    parameter = dict(run.model.named_parameters()).get(name)
    return parameter is None or parameter in run.updates.optimizer.state


@pytest.mark.parametrize("projections", ["qkv", "qkvo"])
@pytest.mark.parametrize("kind", by_family())
def test_as_many_parameters_as_iat_updates(tmp_path, kind, projections):
    """Within half a rank of the mean over tasks of the slices of the task's heads."""
    net = model(kind)
    owned = heads(net)
    slices = head_slices(net.gates, projections)
    in_iat = np.mean([
        sum(p.view(p.parameter.detach()).numel() for p in slices if (p.heads & mask).any())
        for mask in owned.values()
    ])  # fmt: skip
    with trainer(net, SETUP) as run, lora(net, projections).applied(run):
        added = adapters(run)
        (rank,) = {min(p.shape) for p in added.values()}
        count = sum(p.numel() for p in added.values())
        assert abs(count - in_iat) <= count / rank / 2
        matrices = {id(s.parameter) for s in slices if s.parameter.dim() == 2}
        assert len(added) == 2 * len(matrices)


def test_fewer_parameters_than_rank_one_are_refused():
    net = model(hidden_size=4, intermediate_size=4, num_hidden_layers=1)
    with (
        trainer(net, SETUP) as run,
        pytest.raises(ConfigError, match="iat.alpha"),
        lora(net, n=0).applied(run),
    ):
        pass


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_the_rest_trains_as_without_adapters(tmp_path, kind):
    """In the first step, where B is still zero, all other parameters are updated bit for bit alike."""
    net = model(kind)
    state = branched(net, tmp_path)
    results = []
    for restriction in (nullcontext, lora(net).applied):
        net = model(kind)
        with trainer(net, SETUP) as run:
            run.restore(deepcopy(state))  # the optimizer changes the moments in place
            with restriction(run):
                run.run(len(run.history) + 1, never(tmp_path))
                fixed = {name for name, p in net.named_parameters() if not p.requires_grad}
                results.append((values(net), run.history[-1][:5], torch.get_rng_state()))
    (plain, row, random), (adapted, adapted_row, adapted_random) = results
    assert row == adapted_row and torch.equal(random, adapted_random)
    for name, value in plain.items():
        if name.replace(".weight", ".base_layer.weight").replace(".bias", ".base_layer.bias") in fixed:
            assert not torch.equal(value, adapted[name]), name
        else:
            assert torch.equal(value, adapted[name]), name


def test_initial_adapters_depend_on_the_seed(tmp_path):
    drawn = []
    for seed in (7, 7, 8):
        net = model()
        with trainer(net, Setup(data(), SETTINGS, 1, CPU)) as run, LoRA(heads(net), "qkv", seed).applied(run):
            drawn.append(next(p.detach().clone() for name, p in adapters(run).items() if "lora_A" in name))
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])


@pytest.mark.parametrize("kind", ["bert", "albert", "gpt2"])
def test_the_saved_model_is_an_ordinary_one(tmp_path, kind):
    """It loads, gives the same outputs, and its gates work."""
    net = model(kind)
    state = branched(net, tmp_path)
    retrain(net, SETUP, lora(net, "qkvo"), state, never(tmp_path))
    net.save(tmp_path / "model")
    loaded = MultiTask.load(tmp_path / "model")
    gates = torch.ones(LAYERS, HEADS)
    gates[1, 2] = 0
    for values in (None, gates):
        torch.testing.assert_close(outputs(net, values), outputs(loaded, values))
    assert not torch.allclose(outputs(net, gates), outputs(net))
    HeadGates(net.encoder)  # raises if gates do not act on single heads
