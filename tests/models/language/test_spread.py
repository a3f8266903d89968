"""Layers on several devices: hooks of accelerate beside the hooks of gates and of the atlas.

There is no second device here that computes. With all layers on one, all numbers must stay. With the last
ones on a device that knows shapes alone (`meta`), operations between the two fail.
"""

import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from accelerate import dispatch_model

from headspec.atlas import ablation, attention, relevance
from headspec.cost import memory
from headspec.cost.requests import Requests
from headspec.heads.importance import gate_gradients
from headspec.heads.masks import Mask
from headspec.heads.pruning import under_masks
from headspec.models.architectures import continues
from headspec.models.attention.placement import keep_places
from headspec.models.multitask import MultiTask
from headspec.models.pretrained.from_pretrained import keep_half
from headspec.pipeline.layout import Layout
from support.running.studies import CONFIG, study
from support.tiny import CPU, HEADS, LAYERS, TYPES, encoder, examples

CAUSAL = [kind for kind in TYPES if continues({"model_type": kind})]


@pytest.fixture(params=CAUSAL)
def model(request) -> MultiTask:
    return MultiTask(encoder(request.param), "last", {"t": ["no", "yes"]}).eval()


def dispatched(model: MultiTask, rest: str) -> None:
    """Place the last layer on the device `rest`, and everything else on the CPU."""
    names = [name for name, _ in model.encoder.named_modules() if name.rpartition(".")[2].isdecimal()]
    layers = [name for name in names if not any(name.startswith(f"{other}.") for other in names)]
    leaves = [name for name, module in model.encoder.named_modules() if not [*module.children()]]
    others = [name for name in leaves if not any(name.startswith(f"{layer}.") for layer in layers)]
    places = dict.fromkeys([*others, *layers], "cpu") | {layers[-1]: rest}
    dispatch_model(model.encoder, places, main_device="cpu", force_hooks=True)
    keep_places(model.encoder)


def test_numbers_stay(model):
    alone, texts, rows = copy.deepcopy(model), examples(), np.arange(12)
    dispatched(model, "cpu")
    closed = np.arange(LAYERS * HEADS).reshape(LAYERS, HEADS) % 3 == 0
    masks = [Mask("none", None, 0.0, None, closed & False), Mask("t", "top", 0.3, None, closed)]

    def measured(net: MultiTask) -> list[np.ndarray]:
        ablated = ablation.ablate(net, "t", texts, rows, CPU, ("ablation", "mean_ablation"))
        table = attention.attention_measures(net, {"t": texts}, 12, [], CPU)
        return [
            gate_gradients(net, "t", texts, rows, CPU),
            under_masks(net, "t", texts, rows, masks, CPU).values,
            *ablated.increase.values(),
            ablation.resample_ablation(net, "t", texts, rows, CPU),
            relevance.relevances(net, "t", texts, rows, CPU),
            table["value" if "value" in table else table.columns[-2]].to_numpy(),
        ]

    for found, expected in zip(measured(model), measured(alone), strict=True):
        np.testing.assert_array_equal(found, expected)
        assert np.ptp(found) > 0


def test_moving_a_model_moves_what_has_no_place(model):
    dispatched(model, "cpu")
    model.to("meta")
    assert {p.device.type for p in model.encoder.parameters()} == {"cpu"}
    assert {p.device.type for p in model.classifiers.parameters()} == {"meta"}


def test_weights_in_bfloat16_are_spread_alike():
    alone, net = (MultiTask(encoder("llama"), "last", {"t": ["no", "yes"]}).eval() for _ in range(2))
    dispatched(net, "cpu")
    keep_half(alone.encoder)
    keep_half(net.encoder)
    batch = examples().batch(np.arange(12))
    with torch.no_grad():
        assert torch.equal(net.pool(batch), alone.pool(batch))


@torch.no_grad()
def test_gates_meet_the_layers_where_they_are(model):
    """Gates are on the first device, and so are inputs, which the layers on the other have sent there."""
    dispatched(model, "meta")
    where: list[str] = []
    for site in model.gates.sites:
        site.output.register_forward_hook(lambda _, args, output: where.append(output.device.type))
    model.gates.values = torch.ones(LAYERS, HEADS)
    with pytest.raises(NotImplementedError, match="out of meta tensor"):  # after the last layer
        model.pool(examples().batch(np.arange(12)))
    assert where == sorted(where) and {*where} == {"cpu", "meta"} and len(where) == LAYERS


@pytest.mark.parametrize("method", ["prompted", "tuned"])
def test_jobs_of_prompted_models_request_their_gpus(method):
    models = {"m": {"source": "m", "gpus": 3}}
    task = CONFIG["tasks"]["tone"] | {"prompt": "{text_a}:", "answers": {"good": " a", "bad": " b"}}
    tasks = {"tone": task, "other": task}
    loaded = study(tasks=tasks, mixtures={"pairs": [*tasks]}, methods=[method], models=models)
    requests = Requests(Layout(loaded), 1, 2, timed=False)
    holding = 3 if method == "prompted" else 1
    assert requests.gpus(SimpleNamespace(model="m", method=method)) == holding
    assert [memory.gpus(loaded, "m", stage) for stage in ("importance", "prune")] == [holding] * 2
