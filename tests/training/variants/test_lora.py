"""LoRA as the control of IAT: what is trained, its size, and the merged model."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch

from headspec.errors import ConfigError
from headspec.models.attention.head_parameters import head_slices
from headspec.models.gates import HeadGates
from headspec.models.multitask import MultiTask
from headspec.training.loop import Trainer, trainer
from headspec.training.variants.lora import LoRA
from support.tiny import HEADS, LAYERS, by_family, examples
from support.two_tasks import model, never, same, setup

SETUP = setup(clip=1e6)  # never reached
HALF = 9  # steps


def lora(net: MultiTask, projections: str = "qkv", n: int = 4, seed: int = 7) -> LoRA:
    """For the first `n` heads of one task, and the last `n` of the other."""
    first = np.arange(net.gates.layers * net.gates.heads).reshape(net.gates.layers, -1) < n
    return LoRA({"a": first, "b": first[::-1, ::-1]}, projections, seed)


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
    """Adapters do not change the initial outputs; all but the projections is trained; adapters are merged.

    They have as many parameters as IAT updates: within half a rank of the mean over tasks.
    """
    torch.set_num_threads(1)
    net = model(kind)
    restriction, slices = lora(net, projections), head_slices(net.gates, projections)
    fixed = {name for name, p in net.named_parameters() if any(p is s.parameter for s in slices)}
    names = [name for name, _ in net.named_parameters()]
    in_iat = np.mean([
        sum(p.view(p.parameter.detach()).numel() for p in slices if (p.heads & mask).any())
        for mask in restriction.heads.values()
    ])  # fmt: skip
    with trainer(net, SETUP) as run:
        run.run(HALF, never(tmp_path))
        before, plain = values(net), outputs(net)
        with restriction.applied(run):
            added = adapters(run)
            (rank,) = {min(p.shape) for p in added.values()}
            count = sum(p.numel() for p in added.values())
            assert abs(count - in_iat) <= count / rank / 2
            assert len(added) == 2 * len({id(s.parameter) for s in slices if s.parameter.dim() == 2})

            assert torch.equal(outputs(net), plain)
            learning = {n.replace(".base_layer", "") for n, p in net.named_parameters() if p.requires_grad}
            assert learning == set(names) - fixed | set(added)
            drawn = {name: value.detach().clone() for name, value in added.items()}
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


def test_fewer_parameters_than_rank_one_are_refused():
    net = model(hidden_size=4, intermediate_size=4, num_hidden_layers=1)
    refused = pytest.raises(ConfigError, match="iat.alpha")
    with trainer(net, SETUP) as run, refused, lora(net, n=0).applied(run):
        pass


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_the_rest_trains_as_without_adapters(tmp_path, kind):
    """In the first step, where B is still zero, all other parameters are updated bit for bit alike."""
    results = []
    for restricted in (False, True):
        net = model(kind)
        with trainer(net, SETUP) as run:
            run.run(HALF, never(tmp_path))
            with lora(net).applied(run) if restricted else nullcontext():
                run.run(HALF + 1, never(tmp_path))
                fixed = {
                    n.replace(".base_layer", "") for n, p in net.named_parameters() if not p.requires_grad
                }
                results.append((values(net), run.history[-1][:5], torch.get_rng_state()))
    (plain, row, random), (adapted, adapted_row, adapted_random) = results
    assert row == adapted_row and torch.equal(random, adapted_random) and fixed
    for name, value in plain.items():
        assert torch.equal(value, adapted[name]) == (name not in fixed), name


def test_initial_adapters_depend_on_the_seed():
    drawn = []
    for seed in (7, 7, 8):
        net = model()
        with trainer(net, SETUP) as run, lora(net, seed=seed).applied(run):
            drawn.append(next(p.detach().clone() for name, p in adapters(run).items() if "lora_A" in name))
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])


@pytest.mark.parametrize("kind", ["bert", "albert", "gpt2", "llama"])
def test_the_saved_model_is_an_ordinary_one(tmp_path, kind):
    """It loads, gives the same outputs, and its gates work."""
    net = model(kind)
    with trainer(net, SETUP) as run:
        run.run(HALF, never(tmp_path))
        with lora(net, "qkvo").applied(run):
            run.run(len(run.steps), never(tmp_path))
    net.save(tmp_path / "model")
    loaded = MultiTask.load(tmp_path / "model")
    assert same(net, loaded)
    gates = torch.ones(LAYERS, HEADS)
    gates[1, 2] = 0
    for closed in (None, gates):
        torch.testing.assert_close(outputs(net, closed), outputs(loaded, closed))
    assert not torch.allclose(outputs(net, gates), outputs(net))
    HeadGates(net.encoder)  # raises if gates do not act on single heads
