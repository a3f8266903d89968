"""A model, its classes, transformers and torch are unchanged after a function or block."""

import copy
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import nn
from torch.nn.modules import module as hooks
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedConfig, PreTrainedModel

import headspec
from support.tiny import HEADS, LAYERS, encoder

IDS = torch.arange(5, 29).view(3, 8)
SOME = np.eye(LAYERS, HEADS, dtype=bool)


def seen(value: Any, found: dict[int, Any]) -> Any:
    """What a value is: containers, modules and configs by what they hold, anything else by identity."""
    if isinstance(value, (str, int, float, bool, type(None), torch.dtype, torch.device)):
        return value
    if id(value) in found:
        return id(value)
    found[id(value)] = value
    if isinstance(value, torch.Tensor):
        return id(value), value.requires_grad, value.grad is None, value.detach().clone().flatten().tolist()
    if isinstance(value, dict):
        return [(seen(key, found), seen(each, found)) for key, each in value.items()]
    if isinstance(value, (list, tuple, set)):
        return type(value).__name__, [seen(each, found) for each in value]
    if isinstance(value, (nn.Module, PreTrainedConfig)):
        return id(value), id(type(value)), seen(vars(value), found)
    if isinstance(value, type):
        return id(value), {name: id(each) for name, each in vars(value).items()}
    return id(value)


def everything(model: PreTrainedModel) -> tuple[dict[str, Any], dict[int, Any]]:
    """What could be changed, and the objects, which must stay for their identities to mean something."""
    found: dict[int, Any] = {}
    classes = {kind for module in model.modules() for kind in type(module).__mro__}
    registries = {
        name: value for name, value in vars(transformers.modeling_utils).items() if name.startswith("ALL_")
    }
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        output = copy.deepcopy(model).eval()(IDS)[0]
    state = {
        "model": seen(model, found),
        "classes": {kind.__qualname__: seen(kind, found) for kind in classes},
        "interfaces": [seen(kind, found) for kind in (AttentionInterface, AttentionMaskInterface)],
        "mappings": [seen(AttentionInterface._global_mapping, found), *map(vars, registries.values())],
        "hooks": [
            dict(value) for name, value in vars(hooks).items() if name.startswith("_global_") and value
        ],
        "stance": torch._dynamo.eval_frame._stance,
        "output": output.float().tolist(),
    }
    return state, found


def overlapping(model: PreTrainedModel) -> None:
    gates = headspec.HeadGates(model)
    one, two = gates.closed(SOME), gates.closed(~SOME)
    for block in (one, two):
        block.__enter__()
        model(IDS)
    for block in (one, two):
        block.__exit__(None, None, None)


def inside(model: PreTrainedModel) -> None:
    with headspec.HeadGates(model).closed(SOME):
        model(IDS)


def failing(model: PreTrainedModel) -> None:
    with pytest.raises(ZeroDivisionError), headspec.HeadGates(model).closed(SOME):
        model(IDS)
        _ = 1 / 0


def without_gradients(model: PreTrainedModel) -> None:
    with torch.inference_mode():
        inside(model)


def edited(model: PreTrainedModel) -> None:
    with headspec.HeadGates(model).edited(lambda row, context: context * 2):
        model(IDS)


def scored(model: PreTrainedModel) -> None:
    headspec.head_importance(
        model, [{"input_ids": IDS}], lambda outputs, batch: outputs[0].float().square().mean((1, 2))
    )


def removed(model: PreTrainedModel) -> None:
    with headspec.HeadGates(model).closed(~SOME):
        model(IDS)
        headspec.remove_heads(model, SOME)


ACTIONS: list[Callable[[PreTrainedModel], Any]] = [
    headspec.HeadGates, inside, overlapping, failing, without_gradients, edited, scored, removed,
]  # fmt: skip
MODELS: dict[str, dict[str, Any]] = {
    "bert": {}, "albert": {}, "mpnet": {}, "llama": {},
    "gpt2": {"reorder_and_upcast_attn": True, "attn_implementation": "eager"},
}  # fmt: skip


@pytest.mark.parametrize(("kind", "act"), itertools.product(MODELS, ACTIONS))
def test_everything_is_as_before(kind, act):
    model = encoder(kind, **MODELS[kind]).to(torch.bfloat16).train()
    for chosen in ("eager", model.config._attn_implementation):
        model.set_attn_implementation(chosen)  # transformers remembers of the class that this is possible
    before, _kept = everything(model)
    act(model)
    after, _ = everything(model)
    for what, value in before.items():
        assert after[what] == value, what


def test_attention_that_gpt2_computes_beside_the_interface_is_gated_as_it_is():
    """`reorder_and_upcast_attn`, in half precision, where the interface computes something else."""
    model = encoder("gpt2", **MODELS["gpt2"]).to(torch.bfloat16)
    gates = headspec.HeadGates(model)
    with torch.no_grad():
        plain = model(IDS)[0]
        with gates.at(torch.ones(LAYERS, HEADS)):
            assert torch.equal(model(IDS)[0], plain)
        with gates.closed(SOME):
            closed = model(IDS)[0]
        for row, head in np.argwhere(SOME):
            gates.site(row).columns()[head] = 0
        torch.testing.assert_close(model(IDS)[0], closed)
    assert not torch.equal(closed, plain)


def test_parts_that_attend_in_different_ways_go_on_doing_so():
    """A composite's parts have configs of their own."""
    config = transformers.AutoConfig.for_model(
        "encoder-decoder", encoder=encoder("bert").config.to_dict(), decoder=encoder("gpt2").config.to_dict()
    )
    config.decoder.is_decoder = config.decoder.add_cross_attention = True
    config.decoder_start_token_id = config.pad_token_id = 0
    model = transformers.AutoModelForSeq2SeqLM.from_config(config).eval()
    model.set_attn_implementation({"encoder": "eager", "decoder": "sdpa"})
    before = [config._attn_implementation for config in (model.encoder.config, model.decoder.config)]
    headspec.HeadGates(model)
    after = [config._attn_implementation for config in (model.encoder.config, model.decoder.config)]
    assert before == after == ["eager", "sdpa"]
