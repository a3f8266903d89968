"""Importance of heads in any model of transformers, by batches."""

import contextlib
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.modules.module import register_module_forward_pre_hook
from transformers import (
    AutoModelForMultipleChoice,
    CLIPConfig,
    CLIPModel,
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
)
from transformers.pytorch_utils import Conv1D

import headspec
from headspec.errors import ModelError, NumericalError
from support.model_types import any_model, every_type
from support.model_types.any_model import KINDS, QUICK
from support.tiers import cases


@pytest.mark.parametrize("kind", cases([kind for kind in KINDS if kind != "albert"], QUICK.__contains__))
def test_importance_is_the_product_of_weights_and_their_gradients(kind):
    """dL/dxi_h = sum(W_O[:, h] * dL/dW_O[:, h]) of the model's own loss of each example."""
    model = any_model.model(kind).eval()
    gates = headspec.HeadGates(model)
    expected = np.full((3, gates.layers, gates.heads), np.nan)
    for example in range(3):
        model.zero_grad()
        one = {name: value[example : example + 1] for name, value in KINDS[kind].batch().items()}
        model(**one).loss.backward()
        for site in gates.sites:
            weight = site.output.weight
            products = (weight * weight.grad).sum(0 if type(site.output) is not Conv1D else 1)
            expected[example, site.rows[0], : site.heads] = products.detach().view(site.heads, -1).sum(1)
    found = headspec.head_importance(any_model.model(kind), any_model.batches(kind), per_example=True)
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-5 * np.nanmax(np.abs(expected)))
    mean = headspec.head_importance(any_model.model(kind), any_model.batches(kind))
    np.testing.assert_allclose(mean, np.abs(expected).mean(0), rtol=2e-3, atol=2e-5 * np.nanmax(mean))


@pytest.mark.parametrize(
    "kind", ["pythia", "gemma2", "falcon", "roberta", "roberta-labels", "vit", "wav2vec2"]
)
def test_models_in_half_precision_are_scored_with_the_same_loss(kind):
    exact = headspec.head_importance(any_model.model(kind), any_model.batches(kind))
    half = any_model.model(kind).to(torch.bfloat16)
    batches = [
        {name: value.to(torch.bfloat16) if name in ("pixel_values", "input_values") else value
         for name, value in batch.items()}
        for batch in any_model.batches(kind)
    ]  # fmt: skip
    # some of oneDNN's convolutions in bfloat16 are far off on processors with AMX
    with torch.backends.mkldnn.flags(enabled=False):
        found = headspec.head_importance(half, batches)
    assert found.dtype == exact.dtype
    assert np.linalg.norm(found - exact) < 0.1 * np.linalg.norm(exact)


def test_importance_leaves_a_model_as_it_was():
    model = any_model.model("roberta")
    model.classifier.eval()
    model.roberta.embeddings.requires_grad_(False)
    state = [(module.training, set(vars(module))) for module in model.modules()]
    learning = [p.requires_grad for p in model.parameters()]
    with torch.no_grad():
        headspec.head_importance(model, any_model.batches("roberta"))
    with pytest.raises(ValueError, match=r"loss: returned \(\), expected \(2,\), one for each example"):
        headspec.head_importance(model, any_model.batches("roberta"), lambda outputs, batch: outputs.loss)
    assert [(module.training, set(vars(module))) for module in model.modules()] == state
    assert [p.requires_grad for p in model.parameters()] == learning
    assert all(p.grad is None for p in model.parameters())


@contextlib.contextmanager
def passes(model):
    """Count the passes of a model, by a hook that is not a part of it."""
    counted = []
    hook = register_module_forward_pre_hook(lambda module, _: counted.append(1) if module is model else None)
    with contextlib.closing(SimpleNamespace(close=hook.remove)):
        yield counted


@pytest.mark.parametrize(
    ("kind", "kinds", "more"), [("roberta", 1, 0), ("mpnet", 1, 1), ("t5", 3, 0)], ids=str
)
def test_heads_are_found_in_few_passes(kind, kinds, more):
    """One to find them, one with gates of one, one for each attention that is checked, and one with zeroed
    weights, unfused. One more where heads are gated before W_O."""
    model = any_model.model(kind)
    with passes(model) as counted:
        headspec.HeadGates(model)
    assert len(counted) == 2 + 2 * kinds + 1 + more


def test_a_loss_of_ones_own():
    model, batches = any_model.model("vit"), any_model.batches("vit")
    usual = headspec.head_importance(model, batches, per_example=True)
    twice = headspec.head_importance(
        model,
        batches,
        lambda outputs, batch: 2 * cross_entropy(outputs.logits, batch["labels"], reduction="none"),
        per_example=True,
    )
    np.testing.assert_allclose(twice, 2 * usual, rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda batch: [], ValueError, "^batches: got none$"),
        (lambda batch: batch, ValueError, r"^batches: got one batch; expected several, such as \[batch\]$"),
        (
            lambda batch: [{"input_ids": batch["input_ids"]}],
            ModelError,
            "loss: missing; .* expected labels in it, or `loss`$",
        ),
        (
            lambda batch: [tuple(batch.values())],
            ValueError,
            "^batches: got a tuple, expected arguments of the model by name, such as {'input_ids': ...,",
        ),
        (lambda batch: (batch["input_ids"],), ValueError, "^batches: got a Tensor, expected arguments"),
        (
            lambda batch: [{**batch, "input_ids": [[5, 6], [5]]}],
            ValueError,
            "^batches: rows of input_ids differ in length; expected a tensor, such as of a tokenizer with",
        ),
        (
            lambda batch: [{name: value[0] for name, value in batch.items()}],
            ValueError,
            r"^batches: input_ids is \(\d+,\), one example; expected several, such as a batch",
        ),
        (
            lambda batch: [{**batch, "labels": batch["labels"][:2]}],
            ValueError,
            "^batches: labels has 2 examples, but input_ids has 3$",
        ),
        (
            lambda batch: [{name: value[:0] for name, value in batch.items()}],
            ValueError,
            "^batches: got one without examples$",
        ),
    ],
)
def test_batches_that_do_not_do(change, error, message):
    with pytest.raises(error, match=message):
        headspec.head_importance(any_model.model("roberta"), change(any_model.classified()))


@pytest.mark.parametrize("beside", ["texts", "prompts", "labels", "answers", "tokenizer"])
def test_nothing_beside_batches_is_ignored(beside):
    with pytest.raises(ValueError, match=f"^got batches and {beside}; expected only batches, or none$"):
        headspec.head_importance(any_model.model("roberta"), any_model.batches("roberta"), **{beside: ["a"]})


def test_a_loss_is_a_tensor():
    with pytest.raises(ValueError, match=r"^loss: returned a float, expected a tensor \(2,\)$"):
        headspec.head_importance(any_model.model("vit"), any_model.batches("vit"), lambda *_: 1.0)


@pytest.mark.parametrize("form", [torch.Tensor.tolist, torch.Tensor.numpy], ids=["lists", "arrays"])
def test_batches_may_be_lists_and_arrays(form):
    model, batches = any_model.model("roberta"), any_model.batches("roberta")
    expected = headspec.head_importance(model, batches)
    found = [{name: form(value) for name, value in batch.items()} for batch in batches]
    np.testing.assert_array_equal(headspec.head_importance(model, found), expected)


@torch.inference_mode()
def test_batches_may_be_made_in_inference_mode_but_models_not():
    with torch.inference_mode(False):
        model, batches = any_model.model("roberta").eval(), any_model.batches("roberta")
        expected = headspec.head_importance(model, batches)
    inside = [{name: value.clone() for name, value in batch.items()} for batch in batches]
    np.testing.assert_array_equal(headspec.head_importance(model, inside), expected)
    small = headspec.remove_heads(model, {1: [0]})
    with headspec.HeadGates(model).closed({1: [0]}):
        torch.testing.assert_close(small(**inside[0]).logits, model(**inside[0]).logits, rtol=1e-3, atol=1e-4)
    with torch.inference_mode(False):
        small(**batches[0]).loss.backward()
    for use in (headspec.head_importance, headspec.remove_heads):
        with pytest.raises(ModelError, match="^model: made inside torch.inference_mode, where nothing has"):
            use(any_model.model("roberta"), inside)


def one_by_one(model, batch, loss, name) -> np.ndarray:
    """Derivatives of a loss with respect to gates of all examples, an example at a time."""
    gates, found = headspec.HeadGates(model, {k: v for k, v in batch.items() if k != "labels"}), []
    for example in range(len(batch[name])):
        xi = torch.ones(gates.exists.shape, requires_grad=True)
        with gates.at(xi):
            loss(model(**batch), batch)[example].backward()
        found.append(xi.grad.numpy())
    return np.stack(found)


def test_choices_of_an_example_share_its_gates():
    """Also if heads were found with another number of choices."""
    model = AutoModelForMultipleChoice.from_config(every_type.config("roberta")).eval()
    batch = {"input_ids": any_model.ids(6).view(2, 3, 7), "labels": torch.tensor([2, 0])}
    found = headspec.head_importance(model, [batch], per_example=True)
    expected = one_by_one(
        model,
        batch,
        lambda outputs, batch: cross_entropy(outputs.logits, batch["labels"], reduction="none"),
        "labels",
    )
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6)
    xi = torch.ones(2, 2, 4, requires_grad=True)
    with headspec.HeadGates(model).at(xi):
        (gradient,) = torch.autograd.grad(2 * model(**batch).loss, xi)
    np.testing.assert_allclose(gradient, found, rtol=1e-3, atol=1e-6)


def test_a_model_of_texts_and_images_takes_its_batch():
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 4}
    model = CLIPModel(
        CLIPConfig(
            text_config=sizes
            | {"num_hidden_layers": 2, "vocab_size": 64, "eos_token_id": 63, "bos_token_id": 1},
            vision_config=sizes | {"num_hidden_layers": 3, "image_size": 8, "patch_size": 4},
            projection_dim=16,
        )
    ).eval()
    batch = {"input_ids": any_model.ids() % 60, "pixel_values": any_model.seen()["pixel_values"]}

    def loss(outputs, _):
        return -outputs.text_embeds.mul(outputs.image_embeds).sum(-1)

    found = headspec.head_importance(model, [batch], loss, per_example=True)
    assert found.shape == (3, 2 + 3, 4) and (np.abs(found).max((0, 2)) > 1e-6).all()
    np.testing.assert_allclose(found, one_by_one(model, batch, loss, "input_ids"), rtol=1e-3, atol=1e-6)
    rows = headspec.HeadGates(model, batch).rows
    assert rows["tower"].tolist() == ["vision_model"] * 3 + ["text_model"] * 2
    with pytest.raises(ValueError, match="^gates: got gates of 3 examples for 2 sequences"):
        headspec.head_importance(model, [batch | {"pixel_values": batch["pixel_values"][:2]}], loss)


def test_heads_that_read_images_are_not_left_out():
    """A text alone would do for LLaVA, but reaches no head of its images."""
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2}
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(**sizes, image_size=8, patch_size=4),
        text_config=LlamaConfig(**sizes, vocab_size=64, pad_token_id=0),
        image_token_id=62,
        vision_feature_layer=-1,
    )
    model = LlavaForConditionalGeneration(config).eval()
    ids = any_model.ids() % 60
    labels = ids.clone()
    ids[:, 1:5], labels[:, :5] = 62, -100
    batch = {"input_ids": ids, "pixel_values": any_model.seen()["pixel_values"], "labels": labels}
    scores = headspec.head_importance(model, [batch])
    given = {name: value for name, value in batch.items() if name != "labels"}
    rows = headspec.HeadGates(model, given).rows
    assert rows["tower"].tolist() == ["vision_tower"] * (len(scores) - 2) + ["language_model"] * 2
    assert (scores > 0).all() and len(scores) > 2
    np.testing.assert_allclose(headspec.head_importance(model, [batch], inputs=given), scores, rtol=1e-4)


def test_a_loss_that_is_none_of_those_known_is_asked_for():
    model = any_model.model("roberta")
    usual = model.forward

    def forward(**batch):
        outputs = usual(**batch)
        return SimpleNamespace(logits=outputs.logits, loss=outputs.loss + 1 if "labels" in batch else None)

    model.forward = forward
    message = "of Roberta.* is not a cross-entropy or squared error of its logits, expected `loss`$"
    with pytest.raises(ModelError, match=message):
        headspec.head_importance(model, [any_model.classified()])


class Kernel(torch.autograd.Function):
    """A product with a derivative of its own, as of kernels."""

    @staticmethod
    def forward(ctx, states, weight):
        ctx.save_for_backward(weight)
        return states @ weight.T

    @staticmethod
    def backward(ctx, gradient):
        return gradient @ ctx.saved_tensors[0], None


def quantized(model, layer):
    torch.ao.quantization.quantize_dynamic(model, {layer}, inplace=True)


def replacing(forward):
    def change(model, layer):
        dense = model.get_submodule(layer)
        dense.forward = lambda states: forward(dense, states)

    return change


def integers(states, dtype):
    """States as integers and their scale, as BitNet takes them."""
    scale = 127 / states.abs().amax(-1, keepdim=True)
    return (states * scale).round().to(dtype).to(states.dtype) / scale


def packed(states):
    return torch.quantize_per_tensor(states, 0.05, 0, torch.qint8).dequantize()


class Rounded(torch.autograd.Function):
    """Rounded states whose derivative is taken straight through."""

    @staticmethod
    def forward(ctx, states):
        return integers(states, torch.int8)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


LAYER = "roberta.encoder.layer.0.intermediate.dense"


@pytest.mark.parametrize(
    ("change", "lost"),
    [
        (quantized, "linear_dynamic in '{}'"),
        (replacing(lambda dense, x: torch.no_grad()(nn.Linear.forward)(dense, x)), "linear in '{}' .Linear."),
        (replacing(lambda dense, x: nn.Linear.forward(dense, x.detach())), "detach in "),
        (replacing(lambda dense, x: nn.Linear.forward(dense, x.data)), "__get__ in "),
        (
            replacing(lambda dense, x: nn.Linear.forward(dense, integers(x, torch.int8))),
            "to in '{}' .Linear.",
        ),
        (replacing(lambda dense, x: nn.Linear.forward(dense, integers(x, torch.int64))), "to in '{}'"),
        (replacing(lambda dense, x: nn.Linear.forward(dense, packed(x))), "quantize_per_tensor in '{}'"),
        (
            replacing(lambda dense, x: nn.Linear.forward(dense, x) * x.topk(1)[1].ge(0)),
            None,
        ),
        (replacing(lambda dense, x: Kernel.apply(x, dense.weight) + dense.bias), None),
        (replacing(lambda dense, x: nn.Linear.forward(dense, x) + torch.zeros_like(x).sum()), None),
        (replacing(lambda dense, x: nn.Linear.forward(dense, x) + x.detach().argmax().float() * 0), None),
    ],
    ids=[
        "quantized",
        "without gradients",
        "detached",
        "data",
        "int8",
        "int64",
        "packed",
        "places",
        "kernel",
        "zeros",
        "argmax",
    ],
)
def test_layers_without_a_derivative_are_refused(change, lost):
    """Otherwise scores would be those of a model without these layers."""
    model, batches = any_model.model("roberta"), any_model.batches("roberta")
    expected = headspec.head_importance(model, batches)
    change(model, LAYER)
    if lost is None:
        np.testing.assert_allclose(headspec.head_importance(model, batches), expected, rtol=1e-4)
        return
    message = f"the loss has no derivative by all heads: nothing has one through ({lost.format(LAYER)})"
    with pytest.raises(ModelError, match=message):
        headspec.head_importance(model, batches)


def test_rounded_activations_may_have_a_derivative_of_their_own():
    """Scores are those of the derivative taken straight through, by gates of an example at a time."""
    model, (batch,) = any_model.model("roberta").eval(), [any_model.classified()]
    replacing(lambda dense, x: nn.Linear.forward(dense, Rounded.apply(x)))(model, LAYER)
    expected = one_by_one(
        model, batch, lambda outputs, batch: cross_entropy(outputs.logits, batch["labels"], reduction="none"),
        "labels",
    )  # fmt: skip
    found = headspec.head_importance(model, [batch], per_example=True)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6)


@torch.compiler.set_stance("force_eager")  # compiling takes seconds
def test_the_layers_of_bitnet_are_refused():
    """They round states to int8, and their scale alone keeps a derivative."""
    from transformers.integrations.bitnet import BitLinear, pack_weights

    model = any_model.model("olmo2").eval()
    for layer in model.model.layers:
        dense = layer.mlp.up_proj
        bits = BitLinear(dense.in_features, dense.out_features, bias=False, dtype=torch.float32)
        bits.weight.copy_(pack_weights(dense.weight.detach().sign() + 1))
        bits.weight_scale.fill_(1.0)
        layer.mlp.up_proj = bits
    batches = any_model.batches("olmo2")
    exact = headspec.head_importance(model, batches, score="ablation")
    assert (np.abs(exact) > 0).all()
    for score in ("gradient", "signed", "integrated", "tokens"):
        message = (
            r"nothing has one through to in 'model.layers.\d.mlp.up_proj' \(BitLinear\); expected a model"
        )
        with pytest.raises(ModelError, match=message):
            headspec.head_importance(model, batches, score=score)


def test_a_loss_may_stop_derivatives_but_not_all():
    model, batches = any_model.model("roberta"), any_model.batches("roberta")

    def losses(outputs, batch):
        logits = outputs.logits - outputs.logits.amax(-1, keepdim=True).detach()
        return cross_entropy(logits, batch["labels"], reduction="none")

    np.testing.assert_allclose(
        headspec.head_importance(model, batches, losses), headspec.head_importance(model, batches), rtol=1e-4
    )
    with pytest.raises(ModelError, match="the loss has no derivative by all heads: it depends on no head"):
        headspec.head_importance(model, batches, lambda outputs, batch: losses(outputs, batch).detach())


def test_a_derivative_that_is_not_finite_is_an_error():
    batch = any_model.seen()
    batch["pixel_values"][1] = torch.nan
    with pytest.raises(NumericalError, match="for 1 of 3 examples, such as number 1"):
        headspec.head_importance(any_model.model("vit"), [batch])


def test_heads_that_do_not_exist_have_no_score_and_are_not_chosen():
    model = any_model.model("ragged")
    scores = headspec.head_importance(model, any_model.batches("ragged"))
    exists = headspec.HeadGates(model).exists
    assert not exists.all() and np.array_equal(np.isnan(scores), ~exists)
    for sign in (1, -1):
        chosen = headspec.top_heads(sign * scores, 0.5)
        assert chosen.sum() == exists.sum() // 2 and not chosen[~exists].any()
    assert headspec.top_heads(scores, 1.0).sum() == exists.sum()
