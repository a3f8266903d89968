"""IAT that continues adapters: what is a head's own in W + B A, and what stays as it was."""

from copy import deepcopy

import numpy as np
import pytest
import torch

from headspec.models.attention.head_parameters import head_slices
from headspec.models.devices import Device
from headspec.models.gates import HeadGates
from headspec.models.multitask import MultiTask
from headspec.models.saved import adapters, merge_adapters
from headspec.training.iat import Restriction, retrain
from headspec.training.loop import trainer
from headspec.training.trainable import adapt
from headspec.training.variants.leaking import Leaking
from headspec.training.variants.own import Own, trained_slices
from headspec.training.variants.rescored import Rescored
from support.tiers import cases
from support.tiny import CPU, HEADS, LAYERS, encoder
from support.two_tasks import CLASSES, dies_after, model, never, same, setup

POINT, STEPS = 9, 18
SETUP = setup(weight_decay=0.1, learning_rate=1e-2)
OWNED = {"a": np.arange(LAYERS * HEADS).reshape(LAYERS, HEADS) % 4 < 2}  # whole groups, in grouped-query
OWNED["b"] = np.zeros_like(OWNED["a"])
OWNED["b"][1:, 2:] = True
RESCORED = Rescored(OWNED, "qkv", 7, {"alpha": 0.3, "rescorings": 2, "samples": 20})


def adapted(kind: str, device: Device = CPU) -> MultiTask:
    net = model(kind)
    adapt(net, 4, "all", 7, device)
    return net


def moved(kind: str, restriction: Restriction, folder) -> dict[bool, set[bool]]:
    """Whether slices of W + B A, as saved models have them, change in a step, by its task owning them."""
    torch.set_num_threads(1)
    found: dict[bool, set[bool]] = {True: set(), False: set()}
    net, merged = adapted(kind), encoder(kind)
    slices = [s for s in head_slices(HeadGates(merged), restriction.projections) if s.parameter.dim() == 2]
    pretrained = deepcopy(merged.state_dict())

    def effective() -> list[torch.Tensor]:
        merged.load_state_dict(pretrained)
        merge_adapters(merged, adapters(net.encoder))
        return [s.view(s.parameter.detach()).clone() for s in slices]

    with trainer(net, SETUP) as run:
        run.run(POINT, never(folder))  # B is no longer zero, and all factors have moments
        with restriction.applied(run):
            for number in range(POINT, POINT + 4):
                before = effective()
                run.run(number + 1, never(folder))
                owned = restriction.heads[run.steps[number].task]
                for each, was, now in zip(slices, before, effective(), strict=True):
                    found[each.belongs(owned)].add(not torch.equal(was, now))
        assert {step.task for step in run.steps[POINT : POINT + 4]} == {*CLASSES}
    return found


@pytest.mark.parametrize(
    ("kind", "projections"),
    cases([(k, p) for k in ("llama", "gpt2", "bert") for p in ("qkv", "qkvo")],
          [("llama", "qkvo"), ("gpt2", "qkv")].__contains__),
)  # fmt: skip
def test_a_step_changes_only_the_effective_weights_of_its_own_heads(tmp_path, kind, projections):
    """With momentum and weight decay, which would change the others."""
    assert moved(kind, Own(OWNED, projections), tmp_path) == {True: {True}, False: {False}}


def test_momentum_and_decay_of_a_leaking_step_change_other_heads(tmp_path):
    assert moved("llama", Leaking(OWNED, "qkv"), tmp_path)[False] == {True}


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_everything_outside_the_projections_trains_as_before(tmp_path, kind):
    """Adapters of other layers and W_O, and classifiers; the weights under adapters stay."""
    net = adapted(kind)
    with trainer(net, SETUP) as run:
        run.run(POINT, never(tmp_path))
        with Own(OWNED, "qkv").applied(run):
            shared = {s.parameter for s in run.updates.slices if not s.heads.any()}
            before = {name: p.detach().clone() for name, p in net.named_parameters()}
            run.run(STEPS, never(tmp_path))
    names = {name: p for name, p in net.named_parameters()}
    still = {name for name, value in before.items() if torch.equal(value, names[name])}
    assert still == {name for name, p in names.items() if not p.requires_grad or p in shared}
    joint = kind == "gpt2"
    assert len(shared) == LAYERS * (1 if joint else 3) and all(len(p) == 4 for p in shared)


def test_heads_are_scored_again_with_adapters(tmp_path):
    net = adapted("llama")
    with trainer(net, SETUP) as run:
        run.run(POINT, never(tmp_path))
        with RESCORED.applied(run):
            first = run.updates.owned
            run.run(STEPS, never(tmp_path))
            assert any((run.updates.owned[task] != mask).any() for task, mask in first.items())
    assert net.encoder.layers[0].self_attn.q_proj.lora_B["default"].weight.requires_grad
    assert not net.encoder.layers[0].self_attn.q_proj.base_layer.weight.requires_grad


@pytest.mark.slow
@pytest.mark.parametrize("restriction", [Own(OWNED, "qkvo"), RESCORED], ids=["own", "rescored"])
def test_an_interrupted_run_goes_on_as_if_it_had_not_been(tmp_path, restriction):
    with trainer(adapted("llama"), SETUP) as run:
        run.run(POINT, never(tmp_path))
        state = deepcopy(run.state())
    whole, again = adapted("llama"), adapted("llama")
    history = retrain(whole, SETUP, restriction, deepcopy(state), never(tmp_path))
    checkpoint = never(tmp_path)
    checkpoint.seconds = 0
    with dies_after(13):
        retrain(adapted("llama"), SETUP, restriction, deepcopy(state), checkpoint)
    resumed = retrain(again, SETUP, restriction, deepcopy(state), checkpoint)
    assert same(whole, again) and history["loss"].equals(resumed["loss"])


def test_slices_are_found_where_weights_have_the_type_of_autocast():
    half = Device("cpu", "bfloat16")
    found = []
    for device in (CPU, half):
        net = adapted("llama", device)
        with trainer(net, SETUP) as run:
            run.device = device
            names = {p: name for name, p in net.named_parameters()}
            slices = trained_slices(run, "qkvo")
            found.append([(names[s.parameter], s.across, s.start, s.stop, s.heads.tolist()) for s in slices])
    assert found[0] == found[1] and all("lora_" in name for name, *_ in found[0])
