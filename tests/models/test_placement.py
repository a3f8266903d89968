"""Models whose weights are offloaded, or whose layers compute again in backward passes, or have none."""

import itertools

import numpy as np
import pytest
import torch
from accelerate import cpu_offload, disk_offload
from transformers import AttentionInterface

import headspec
from headspec.errors import ModelError
from support.model_types import any_model
from support.tiers import cases

SCORES = "gradient", "tokens", "ablation", "mean_ablation"


@pytest.mark.parametrize(
    ("kind", "where"),
    cases(itertools.product(["olmo2", "roberta"], ["memory", "disk"]), ("olmo2", "disk").__eq__),
)
def test_offloaded_models_are_scored_as_whole_ones(kind, where, tmp_path):
    model, batches = any_model.model(kind).eval(), any_model.batches(kind)
    expected = {score: headspec.head_importance(model, batches, score=score) for score in SCORES}
    ids = np.arange(30).reshape(5, 6) + 5
    given = [{"input_ids": ids, "labels": ids if kind == "olmo2" else np.arange(5) % 3}]
    plain = headspec.head_curve(model, given, fractions=[0.3], draws=5)
    off = cpu_offload if where == "memory" else disk_offload
    off(
        model,
        **({} if where == "memory" else {"offload_dir": tmp_path}),
        execution_device=torch.device("cpu"),
    )
    assert next(model.parameters()).is_meta
    for score in SCORES:
        found = headspec.head_importance(model, batches, score=score)
        np.testing.assert_allclose(found, expected[score], rtol=1e-4, atol=1e-6)
    curve = headspec.head_curve(model, given, fractions=[0.3], draws=5)
    np.testing.assert_allclose(curve["value"], plain["value"], rtol=1e-4)
    with pytest.raises(
        ModelError, match=r"cannot be removed: '.*\.weight' is offloaded; expected a model in "
    ):
        headspec.remove_heads(model, {0: [1]})


@pytest.mark.parametrize("kind", ["pythia", "opt", "roberta", "t5", "ragged"])
@pytest.mark.parametrize("score", ["gradient", "tokens"])
def test_layers_compute_again_where_the_model_says_so(kind, score):
    """Without dropout, in the backward pass of each batch, and never for scores without one."""
    model, batches = any_model.model(kind), any_model.batches(kind)
    expected = headspec.head_importance(model, batches, score=score)
    calls, attention = [], headspec.HeadGates(model).sites[0].attention
    attention.register_forward_pre_hook(lambda *_: calls.append(torch.is_grad_enabled()))
    headspec.head_importance(model, batches, score=score)
    once = sum(calls)
    model.activation_checkpointing_enable({"use_reentrant": True})
    before = [(module.training, set(vars(module))) for module in model.modules()]
    calls.clear()
    np.testing.assert_array_equal(headspec.head_importance(model, batches, score=score), expected)
    assert sum(calls) == once + len(batches)
    assert [(module.training, set(vars(module))) for module in model.modules()] == before


def test_layers_with_states_of_earlier_tokens_keep_theirs():
    """A layer that computes again would not see them."""
    from transformers import DynamicCache

    model, past = any_model.model("pythia"), DynamicCache()
    ids = any_model.ids()
    with torch.no_grad():
        model.eval()(input_ids=ids, past_key_values=past)
    batch = {"input_ids": ids, "labels": ids, "past_key_values": past}
    expected = headspec.head_importance(model, [batch])
    model.activation_checkpointing_enable()
    np.testing.assert_array_equal(headspec.head_importance(model, [batch]), expected)


def test_attention_without_a_backward_pass_does_what_needs_none(monkeypatch):
    """As flex attention has none on a CPU."""
    usual, refuses = AttentionInterface._global_mapping["sdpa"], []

    def forward_only(module, *states, **kwargs):
        if refuses and any(isinstance(each, torch.Tensor) and each.requires_grad for each in states):
            raise NotImplementedError("backward on CPU")
        return usual(module, *states, **kwargs)

    monkeypatch.setitem(AttentionInterface._global_mapping, "forward_only", forward_only)
    model, (batch, _) = any_model.model("roberta").eval(), any_model.batches("roberta")
    model.set_attn_implementation("forward_only")
    model.requires_grad_(False)
    functions = [
        lambda: headspec.head_importance(model, [batch], score="ablation"),
        lambda: headspec.remove_heads(model, {0: [1], 1: [0, 2]})(**batch).logits.detach().numpy(),
    ]
    expected = [function() for function in functions]
    refuses.append(True)
    for function, values in zip(functions, expected, strict=True):
        np.testing.assert_array_equal(function(), values)
    with pytest.raises(ModelError, match="^the loss has no derivative: backward on CPU$"):
        headspec.head_importance(model, [batch])


def test_heads_that_are_divided_in_an_unknown_way_are_refused():
    model = any_model.model("olmo2")
    model._tp_size = 2
    message = r"'model.layers.0.self_attn' is divided over processes \(tensor parallelism\), and which heads "
    with pytest.raises(ModelError, match=message):
        headspec.HeadGates(model)
    with pytest.raises(ModelError, match=message):
        headspec.head_importance(model, any_model.batches("olmo2"))
