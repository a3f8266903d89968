"""Passes that start at a layer equal full passes with a closed gate, in every architecture of the table."""

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from headspec.errors import EncoderError
from headspec.models.internals.resuming import Resuming
from headspec.models.multitask import MultiTask
from support.tiny import HEADS, LAYERS, by_family, examples, multitask


@pytest.fixture(scope="module", params=by_family())
def model(request) -> MultiTask:
    return multitask(request.param, {"a": ["x", "y"]}).requires_grad_(False)


@pytest.fixture
def run(model):
    batch = examples().batch(np.arange(6))
    return lambda: model.losses("a", model.pool(batch), batch.labels)


def forwards(model: MultiTask) -> list:
    return [module.__dict__.get("forward") for module in model.modules()]


@torch.no_grad()
def test_a_head_left_out_is_a_closed_gate_and_leaves_the_model_as_it_was(model, run):
    before, plain = forwards(model), run()
    with Resuming(model.encoder, model.gates) as passes:
        assert torch.equal(passes.record(run), plain)
        resumed = [passes.without(*head, run) for head in np.ndindex(LAYERS, HEADS)]
    assert forwards(model) == before and torch.equal(run(), plain)
    for head, losses in zip(np.ndindex(LAYERS, HEADS), resumed, strict=True):
        model.gates.values = torch.ones(LAYERS, HEADS)
        model.gates.values[head] = 0
        closed = run()
        model.gates.values = None
        torch.testing.assert_close(losses, closed, rtol=1e-5, atol=1e-6)
        assert not torch.equal(losses, plain)


@torch.no_grad()
def test_only_what_follows_is_computed(model, run):
    """No part of earlier layers, and of this layer no query, key or value."""

    def operations(work) -> int:
        with FlopCounterMode(display=False) as counter:
            work()
        return counter.get_total_flops()

    with Resuming(model.encoder, model.gates) as passes:
        full = operations(lambda: passes.record(run))
        counts = [operations(lambda layer=layer: passes.without(layer, 0, run)) for layer in range(LAYERS)]
    assert full > counts[0] > counts[1] > counts[2] > 0
    assert counts[0] - counts[1] == counts[1] - counts[2]  # one layer
    assert counts[2] < counts[1] - counts[2]  # not even one layer


def test_an_encoder_that_changes_what_it_returned_is_refused():
    model = multitask("bert", {"a": ["x", "y"]})
    layer = model.encoder.encoder.layer[1]
    layer.register_forward_pre_hook(lambda module, args: (args[0].mul_(1.1), *args[1:]))
    with (
        pytest.raises(EncoderError, match="bert cannot start at a layer"),
        Resuming(model.encoder, model.gates),
    ):
        pass
    assert not any(forwards(model))


def test_an_encoder_that_does_not_repeat_its_calls_is_refused():
    model = multitask("bert", {"a": ["x", "y"]})
    seen: list[int] = []

    def once(module, args):
        if not seen:
            seen.append(1)
            model.encoder.encoder.layer[2].output.dropout(args[0])

    model.encoder.encoder.layer[1].register_forward_pre_hook(once)
    with pytest.raises(EncoderError, match="does not repeat"), Resuming(model.encoder, model.gates):
        pass
    assert not any(forwards(model))
