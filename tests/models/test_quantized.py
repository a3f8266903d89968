"""Models whose linear layers have packed weights, by libraries or by a small layer of our own."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    BitsAndBytesConfig,
    LlamaConfig,
    LlamaForCausalLM,
    TorchAoConfig,
)
from transformers.pytorch_utils import Conv1D

import headspec
from headspec.errors import ModelError
from headspec.heads.any_model.scores import SCORES
from headspec.models.attention.interface import evaluating
from headspec.models.attention.projections import inputs_first, is_linear, is_packed
from support import language
from support.model_types import any_model, every_type
from support.models import WORDS
from support.paths import ROOT

SCORED = [name for name in SCORES if SCORES[name].values and SCORES[name].donors != "corrupted"]


class Packed(nn.Module):
    """A linear layer of numbers in 4 bits, two in a byte, which are unpacked in each pass."""

    def __init__(self, dense):
        super().__init__()
        weight = inputs_first(dense).T.detach()
        self.out_features, self.in_features = weight.shape
        self.scale = nn.Parameter(weight.abs().amax(1, keepdim=True) / 7)
        levels = (weight / self.scale).round().to(torch.int16).reshape(-1, 2) + 8
        bytes_ = (levels[:, :1] * 16 + levels[:, 1:]).to(torch.uint8)
        self.weight = nn.Parameter(bytes_, requires_grad=False)
        self.bias = dense.bias

    def unpacked(self):
        levels = torch.cat([self.weight // 16, self.weight % 16], 1).view(-1, self.in_features)
        return (levels.float() - 8) * self.scale

    def forward(self, states):
        return nn.functional.linear(states, self.unpacked(), self.bias)


def packed_and_plain(kind):
    """A model with packed weights, and one with the numbers that they stand for."""
    packed = any_model.model(kind).eval()
    plain = copy.deepcopy(packed)
    for name, module in [*packed.named_modules()]:
        if type(module) in (nn.Linear, Conv1D) and module is not packed.get_output_embeddings():
            layer = Packed(module)
            packed.set_submodule(name, layer)
            inputs_first(plain.get_submodule(name)).data.copy_(layer.unpacked().T)
    return packed, plain


@pytest.mark.parametrize("kind", ["olmo2", "falcon-grouped", "roberta", "mpnet"])
def test_packed_weights_are_scored_as_the_numbers_that_they_stand_for(kind):
    """By layers at the attention interface, and by others, whose heads are gated before W_O."""
    packed, plain = packed_and_plain(kind)
    batches = any_model.batches(kind)
    for score in ("gradient", "ablation"):
        expected = headspec.head_importance(plain, batches, score=score)
        found = headspec.head_importance(packed, batches, score=score)
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5 * np.nanmax(np.abs(expected)))
    scores = np.where(headspec.HeadGates(plain).exists, found, 0)
    ids = np.arange(30).reshape(5, 6) + 5
    given = [{"input_ids": ids, "labels": ids if kind in ("olmo2", "falcon-grouped") else np.arange(5) % 3}]
    curves = [
        headspec.head_curve(model, given, scores=scores, fractions=[0.3], draws=5)
        for model in (packed, plain)
    ]
    np.testing.assert_allclose(curves[0]["value"], curves[1]["value"], rtol=1e-4)


@pytest.mark.parametrize("only", ["value", "output.dense"])
def test_packed_weights_have_no_magnitude(only):
    packed, plain = packed_and_plain("roberta")
    for name, module in [*plain.named_modules()]:
        if type(module) is nn.Linear and not name.endswith(only):
            packed.set_submodule(name, module)
    which = "V" if only == "value" else "O"
    with pytest.raises(ModelError, match=f"^score 'magnitude': W_{which} of 'roberta.encoder.layer.0.atten"):
        headspec.head_importance(packed, score="magnitude")


@pytest.mark.parametrize("kind", ["pythia", "roberta", "mpnet", "gpt2-classes"])
def test_heads_are_removed_from_what_packed_weights_stand_for(kind, tmp_path, caplog):
    packed, plain = packed_and_plain(kind)
    (batch, _) = any_model.batches(kind)
    small = headspec.remove_heads(packed, {0: [1], 1: [0, 2]})
    expected = headspec.remove_heads(plain, {0: [1], 1: [0, 2]})
    torch.testing.assert_close(small(**batch).logits, expected(**batch).logits, rtol=1e-3, atol=1e-4)
    assert "layers are quantised; their weights are copied as torch.float32" in caplog.text
    assert any(map(is_packed, packed.modules())) and not any(map(is_packed, small.modules()))
    headspec.save(small, tmp_path / "small")
    torch.testing.assert_close(
        headspec.load(tmp_path / "small").eval()(**batch).logits, small(**batch).logits, rtol=1e-5, atol=1e-6
    )


def test_a_layer_without_sizes_is_named():
    packed, _ = packed_and_plain("olmo2")
    del packed.model.layers[1].mlp.up_proj.in_features
    message = "cannot be removed: 'model.layers.1.mlp.up_proj' is quantised .Packed. and has no known sizes$"
    with pytest.raises(ModelError, match=message):
        headspec.remove_heads(packed, {0: [1]})


def nf4():
    pytest.importorskip("bitsandbytes")
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.float32,
    )


def int8():
    pytest.importorskip("bitsandbytes")
    return BitsAndBytesConfig(load_in_8bit=True)


def torchao(name):
    quantization = pytest.importorskip("torchao.quantization")
    return TorchAoConfig(getattr(quantization, name)())


KINDS = {
    "nf4": nf4,
    "int8": int8,
    "torchao int8": lambda: torchao("Int8WeightOnlyConfig"),
    "torchao float8": lambda: torchao("Float8WeightOnlyConfig"),
    "torchao int8 dynamic": lambda: torchao("Int8DynamicActivationInt8WeightConfig"),
}
#: whose activations are rounded by what has no derivative
ROUNDED = "torchao int8 dynamic"
#: whose derivative goes straight through rounded activations: small differences are mostly steps
STEPS = "int8"


@pytest.fixture
def loaded(request, tmp_path):
    """A model of a kind of weights, as transformers loads it, and batches."""
    config = KINDS[request.param]()
    torch.manual_seed(0)
    whole = LlamaForCausalLM(
        LlamaConfig(
            hidden_size=64,
            intermediate_size=128,
            num_attention_heads=8,
            num_key_value_heads=4,
            num_hidden_layers=2,
            vocab_size=every_type.VOCABULARY,
        )
    )
    for parameter in whole.parameters():
        parameter.data.mul_(3 if parameter.dim() == 2 else 1)
    whole.save_pretrained(tmp_path / "whole")
    model = AutoModelForCausalLM.from_pretrained(
        tmp_path / "whole", quantization_config=config, device_map="cpu", dtype=torch.float32
    )
    assert not any(map(is_plain_linear, model.model.layers.modules()))
    ids = any_model.ids()
    return request.param, model, [{"input_ids": part, "labels": part} for part in (ids[:2], ids[2:])]


def is_plain_linear(module):
    return is_linear(module) and not is_packed(module)


@pytest.mark.slow
@pytest.mark.parametrize("loaded", KINDS, indirect=True)
def test_scores_of_quantised_models_are_finite_differences(loaded):
    kind, model, batches = loaded
    if kind == ROUNDED:
        with pytest.raises(
            ModelError, match="nothing has one through linear in '.*o_proj' .Linear.; expected"
        ):
            headspec.head_importance(model, batches)
        assert np.isfinite(headspec.head_importance(model, batches, score="ablation")).all()
        return
    found = headspec.head_importance(model, batches, score="signed")
    gates = headspec.HeadGates(model)

    def loss(values):
        with torch.no_grad(), gates.at(values), evaluating(model):
            each = [model(**batch).loss * len(batch["labels"]) for batch in batches]
        return float(sum(each)) / 3

    step, expected = 0.02, np.zeros_like(found)
    for place in np.ndindex(found.shape):
        less, more = np.ones((2, *found.shape), np.float32)
        less[place] -= step
        more[place] += step
        expected[place] = (loss(less) - loss(more)) / (2 * step)
    if kind != STEPS:
        np.testing.assert_allclose(found, expected, rtol=0.02, atol=0.01 * np.abs(expected).max())
    for score in SCORED:
        assert np.isfinite(headspec.head_importance(model, batches, score=score)).all()


@pytest.mark.slow
@pytest.mark.parametrize("loaded", KINDS, indirect=True)
def test_quantised_models_are_saved_and_lose_heads(loaded, tmp_path):
    _, model, (batch, _) = loaded
    headspec.save(model, tmp_path / "again")
    with torch.no_grad():
        again = headspec.load(tmp_path / "again", device_map="cpu")(**batch).logits
        torch.testing.assert_close(again, model(**batch).logits, rtol=1e-3, atol=1e-3)
        small = headspec.remove_heads(model, {0: [0, 1], 1: [4, 5, 6, 7]})
        with headspec.HeadGates(model).closed({0: [0, 1], 1: [4, 5, 6, 7]}):
            closed = model(**batch).logits
        assert (small(**batch).logits - closed).norm() < 0.05 * closed.norm()
        assert getattr(small.config, "quantization_config", None) is None
        headspec.save(small, tmp_path / "small")
        left = (
            AutoModelForCausalLM.from_pretrained
            if "headspec" not in small.config.to_dict()
            else headspec.load
        )
        torch.testing.assert_close(left(tmp_path / "small")(**batch).logits, small(**batch).logits)


def test_the_page_s_example_in_four_bits_runs(tmp_path, monkeypatch):
    """On a tiny model, whose vocabulary takes shorter sequences."""
    pytest.importorskip("bitsandbytes")
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs/methods/decoders.md").read_text(encoding="utf-8")
    code = next(block for block in text.split("```py\n")[1:] if "load_in_4bit" in block).split("```")[0]
    folder = language.make("llama", tmp_path / "m")
    short = code.replace("behaviours(model, tokenizer)", "behaviours(model, tokenizer, tokens=24)")
    names = {
        "headspec": headspec, "AutoModelForCausalLM": AutoModelForCausalLM, "AutoTokenizer": AutoTokenizer,
        "BitsAndBytesConfig": BitsAndBytesConfig, "prompts": [f"a {word}" for word in WORDS[-12:]],
        "answers": [f" {word}" for word in WORDS[-12:]],
    }  # fmt: skip
    exec(short.replace("meta-llama/Llama-3.1-8B", str(folder)), names)
    page = (tmp_path / "heads.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 2 and page.count("<tr") == 1 + len(names["does"])
    assert any(map(is_packed, names["model"].modules()))
