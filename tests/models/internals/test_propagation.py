"""Rules of relevance propagation: closed forms, and where relevance ends in every architecture."""

from typing import get_args

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.modules.module import _global_forward_hooks
from torch.overrides import TorchFunctionMode
from transformers.activations import ACT2FN

from headspec.models.gates import HeadGates
from headspec.models.internals.propagation import Rules, propagating
from headspec.models.multitask import MultiTask
from support import tiny
from support.models import TRANSLATORS
from support.tiers import cases
from support.tiny import HEADS, LAYERS, QUICK, by_family, encoder, examples, families
from support.translators import translator

CLASSES = {"a": ["x", "y", "z"]}
RULES = get_args(Rules)


def multitask(kind: str, pooling: str | None = None, **settings) -> MultiTask:
    """A random model with random biases, and weights without gradients."""
    model = MultiTask(encoder(kind, **settings), pooling or tiny.pooling(kind), CLASSES).eval()
    torch.manual_seed(3)
    for name, parameter in model.requires_grad_(False).named_parameters():
        if name.endswith("bias"):
            nn.init.normal_(parameter, std=0.3)
    return model


@pytest.fixture(scope="module", params=by_family())
def model(request) -> MultiTask:
    return multitask(request.param)


class Offsets(TorchFunctionMode):
    """Records what the offset of every softmax absorbs: y - J x, times the gradient at y."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[torch.Tensor, torch.Tensor]] = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        output = func(*args, **(kwargs or {}))
        if func is F.softmax:
            self.calls.append((args[0], output))
            args[0].retain_grad(), output.retain_grad()
        return output

    def absorbed(self) -> float:
        return sum(
            float(((y * y.grad).sum() - (x * x.grad).sum()).detach())
            for x, y in self.calls
            if y.grad is not None
        )


def top_logit(model: MultiTask, batch) -> torch.Tensor:
    return model.logits("a", model.pool(batch)).amax(1).sum()


UNUSUAL: list[tuple[str, dict]] = [
    ("deberta-v2", {"conv_kernel_size": 3, "conv_act": "gelu"}),  # an activation that is no submodule
    ("gpt2", {"reorder_and_upcast_attn": True}),  # its own attention
    ("qwen2", {"hidden_act": "quick_gelu", "use_sliding_window": True, "sliding_window": 4}),
]


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize(
    ("kind", "settings"),
    [*cases([(kind, {}) for kind in families()], lambda case: case[0] in QUICK), *UNUSUAL],
)
def test_relevance_ends_in_embeddings_and_biases_or_is_absorbed_by_the_softmax(kind, settings, rules):
    """The logit is the relevance of embeddings and biases, plus what the softmax absorbs in `attnlrp`."""
    model, batch = multitask(kind, **settings), examples(4).batch(np.arange(4))
    modules = dict(model.named_modules())
    ends = [
        parameter.requires_grad_(True)
        for name, parameter in model.named_parameters()
        if name.endswith("bias") or isinstance(modules[name.rpartition(".")[0]], nn.Embedding)
    ]
    with Offsets() as offsets, propagating(model.gates, rules):
        logit = top_logit(model, batch)
    logit.backward()
    relevance = sum(float((end * end.grad).sum().detach()) for end in ends if end.grad is not None)
    absorbed = offsets.absorbed()
    assert relevance + absorbed == pytest.approx(float(logit.detach()), rel=1e-3)
    assert (absorbed == 0) == (rules == "constant_attention") and len(offsets.calls) == LAYERS


@pytest.mark.parametrize("name", by_family(TRANSLATORS))
def test_relevance_is_that_of_the_largest_logits_and_ends_in_what_the_layers_take(model_folder, name):
    """Embeddings of sources and of targets, and biases, of which T5 has none."""
    model, texts = translator(model_folder(name), name, 4)
    batch, inputs = texts.batch(np.array([3])), []

    def begin(layer, args):
        inputs.append(args[0].detach().requires_grad_())
        return inputs[-1] + 0, *args[1:]

    stacks = [model.encoder.get_encoder(), model.encoder.get_decoder()]
    hooks = [
        next(m for m in stack.modules() if isinstance(m, nn.ModuleList))[0].register_forward_pre_hook(begin)
        for stack in stacks
    ]
    biases = [
        parameter.requires_grad_(True)
        for name, parameter in model.requires_grad_(False).named_parameters()
        if name.endswith("bias") and "embedding" not in name
    ]
    with propagating(model.gates, "constant_attention"):
        logit = model.evidence("a", model.pool(batch), batch.labels).sum()
    gradients = torch.autograd.grad(logit, [*inputs, *biases], allow_unused=True)
    for hook in hooks:
        hook.remove()
    ends = zip([*inputs, *biases], gradients, strict=True)
    relevance = sum(float((end * each).sum().detach()) for end, each in ends if each is not None)
    assert relevance == pytest.approx(float(logit.detach()), rel=5e-3)
    with torch.no_grad():
        whole = model.encoder(input_ids=batch.input_ids, labels=batch.labels.ids).logits
    assert float(logit.detach()) == pytest.approx(float(whole.amax(-1).mean()), rel=1e-4)


@pytest.mark.parametrize("rules", RULES)
def test_heads_and_bias_share_the_relevance_of_their_attention(model, rules):
    """The output stays; gradients within the block alone are relevance."""
    batch = examples(3).batch(np.arange(3))

    def passed() -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]]:
        """The logit, gradients of the gates, and outputs of attention with theirs."""
        gates, outputs = torch.ones(3, model.gates.layers, HEADS, requires_grad=True), []
        keep = [
            site.output.register_forward_hook(lambda *call: outputs.append(call[-1]))
            for site in model.gates.sites
        ]
        with model.gates.at(gates):
            logit = top_logit(model, batch)
        for hook in keep:
            hook.remove()
        for output in outputs:
            output.retain_grad()
        logit.backward()
        return logit.detach(), gates.grad, outputs

    before = passed()
    with propagating(model.gates, rules):
        logit, gradients, outputs = passed()
    for layer, output in enumerate(outputs):
        bias = model.gates.site(layer).output.bias
        constant = 0 if bias is None else (bias * output.grad).sum((1, 2))
        torch.testing.assert_close(
            gradients[:, layer].sum(1) + constant, (output * output.grad).sum((1, 2)), rtol=1e-3, atol=1e-5
        )
    torch.testing.assert_close(logit, before[0])
    assert not torch.allclose(gradients, before[1], rtol=0.01)
    assert all(map(torch.equal, passed()[:2], before[:2]))


@pytest.mark.parametrize(
    "activation", ["relu", "gelu", "gelu_new", "gelu_fast", "quick_gelu", "silu", "tanh"]
)
def test_an_activation_passes_output_over_input(activation):
    x = torch.tensor([-2.0, -0.5, 0.0, 1.0, 3.0], requires_grad=True)
    with propagating(HeadGates(encoder("bert")), "constant_attention"):
        y = ACT2FN[activation](x)
    y.sum().backward()
    expected = [0 if value == 0 else ACT2FN[activation](torch.tensor(value)) / value for value in x.tolist()]
    torch.testing.assert_close(x.grad, torch.tensor(expected))


@pytest.mark.parametrize("rules", RULES)
def test_the_rules_of_other_operations(rules):
    torch.manual_seed(0)
    x, weight, c = torch.randn(5, requires_grad=True), torch.randn(5), torch.randn(5)
    a, b = torch.randn(5, requires_grad=True), torch.randn(5, requires_grad=True)
    with propagating(HeadGates(encoder("bert")), rules):
        normed = F.layer_norm(x, (5,), weight, torch.ones(5), 1e-5)
        product = (a + 0) * (b + 0)
        scaled = weight * (a + 0)
        probabilities = F.softmax(b + 0, dim=-1)
    (gradient,) = torch.autograd.grad((c * normed).sum(), x)
    deviation = float((x.detach().var(correction=0) + 1e-5).sqrt())
    torch.testing.assert_close(gradient, (c * weight - (c * weight).mean()) / deviation)
    for factor, other in [(a, b), (b, a)]:
        (gradient,) = torch.autograd.grad(product.sum(), factor, retain_graph=True)
        torch.testing.assert_close(gradient, other.detach() / 2)
    torch.testing.assert_close(torch.autograd.grad(scaled.sum(), a)[0], weight)  # a weight is no factor
    assert probabilities.requires_grad  # a softmax that is not one of attention, as of a router


def test_relevance_of_the_heads_of_one_layer_in_closed_form():
    """Without MLP: the logit of w LN(LN(x + sum of heads)), both denominators constant."""
    model = multitask("bert", "first", num_hidden_layers=1)
    model.encoder.pooler = None
    layer, classifier = model.encoder.encoder.layer[0], model.classifiers[0]
    for linear in (layer.intermediate.dense, layer.output.dense):
        linear.weight.zero_(), linear.bias.zero_()
    seen = {}
    for name, module in {
        "context": layer.attention.output.dense, "first": layer.attention.output.LayerNorm,
        "second": layer.output.LayerNorm,
    }.items():  # fmt: skip
        module.register_forward_pre_hook(lambda _, args, name=name: seen.update({name: args[0][0, 0]}))
    gates = torch.ones(1, 1, HEADS, requires_grad=True)
    with model.gates.at(gates), propagating(model.gates, "constant_attention"):
        logits = model.logits("a", model.pool(examples(1).batch(np.arange(1))))
    logits.max().backward()

    def normalise(head: torch.Tensor, norm: nn.LayerNorm, states: torch.Tensor) -> torch.Tensor:
        deviation = (states.var(correction=0) + norm.eps).sqrt()
        return norm.weight * (head - head.mean(-1, keepdim=True)) / deviation

    by_head = (layer.attention.output.dense.weight * seen["context"]).unflatten(1, (HEADS, -1)).sum(2).T
    states = normalise(by_head, layer.attention.output.LayerNorm, seen["first"])
    states = normalise(states, layer.output.LayerNorm, seen["second"])
    expected = states @ classifier.weight[logits.argmax()]
    torch.testing.assert_close(gates.grad[0, 0], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("rules", RULES)
def test_an_error_leaves_nothing_behind(rules):
    bert = encoder("bert")
    assert bert.config._attn_implementation == "sdpa"
    with pytest.raises(ZeroDivisionError), propagating(HeadGates(bert), rules):
        assert bert.config._attn_implementation == "eager" and _global_forward_hooks
        1 / 0  # noqa: B018
    assert bert.config._attn_implementation == "sdpa" and not _global_forward_hooks
