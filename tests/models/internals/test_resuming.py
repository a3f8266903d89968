"""Passes that start at a layer; tests of ablation compare them with full passes with a closed gate."""

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from headspec.errors import ModelError
from headspec.models.internals.resuming import Resuming
from headspec.models.multitask import MultiTask
from support.tiny import LAYERS, by_family, examples, multitask


@pytest.fixture(scope="module", params=by_family())
def model(request) -> MultiTask:
    return multitask(request.param, {"a": ["x", "y"]}).requires_grad_(False)


def forwards(model: MultiTask) -> list:
    return [module.__dict__.get("forward") for module in model.modules()]


@torch.no_grad()
def test_only_what_follows_is_computed_and_the_model_is_left_as_it_was(model):
    """No part of earlier layers, and of this layer no query, key or value."""
    batch = examples().batch(np.arange(6))

    def run() -> torch.Tensor:
        return model.losses("a", model.pool(batch), batch.labels)

    def operations(work) -> int:
        with FlopCounterMode(display=False) as counter:
            work()
        return counter.get_total_flops()

    before, plain = forwards(model), run()
    with Resuming(model.encoder, model.gates) as passes:
        assert torch.equal(passes.record(run), plain)
        full = operations(lambda: passes.record(run))
        counts = [operations(lambda layer=layer: passes.without(layer, 0, run)) for layer in range(LAYERS)]
    assert full > counts[0] > counts[1] > counts[2] > 0
    assert counts[0] - counts[1] == counts[1] - counts[2]  # one layer
    assert counts[2] < counts[1] - counts[2]  # not even one layer
    assert forwards(model) == before and torch.equal(run(), plain)


def changes_what_it_returned(model: MultiTask) -> None:
    layer = model.encoder.encoder.layer[1]
    layer.register_forward_pre_hook(lambda module, args: (args[0].mul_(1.1), *args[1:]))


def does_not_repeat_its_calls(model: MultiTask) -> None:
    layers = model.encoder.encoder.layer
    once = [layers[2].output.dropout]

    def call(module, args):
        if once:
            once.pop()(args[0])

    layers[1].register_forward_pre_hook(call)


@pytest.mark.parametrize(
    ("unfit", "message"),
    [(changes_what_it_returned, "bert cannot start at a layer"), (does_not_repeat_its_calls, "not repeat")],
)
def test_an_encoder_whose_passes_cannot_start_at_a_layer_is_refused(unfit, message):
    model = multitask("bert", {"a": ["x", "y"]})
    unfit(model)
    with pytest.raises(ModelError, match=message), Resuming(model.encoder, model.gates):
        pass
    assert not any(forwards(model))
