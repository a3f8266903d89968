"""Importance of heads in any model of transformers, by batches, texts and prompts."""

import contextlib
from types import SimpleNamespace

import numpy as np
import pandas as pd
import peft
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.modules.module import register_module_forward_pre_hook
from transformers import (
    AutoModelForMultipleChoice,
    AutoTokenizer,
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
from headspec.models.attention import known
from support.model_types import any_model, every_type
from support.model_types.any_model import KINDS, QUICK
from support.models import MODELS, llama, qwen
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


@pytest.mark.parametrize("kind", ["roberta", "pythia", "vit", "t5"])
def test_heads_are_found_once_for_models_of_one_structure(kind):
    """Afterwards the loss takes one pass of a few examples, and scores one of each batch."""
    first, again = any_model.model(kind), any_model.model(kind, seed=1)
    headspec.head_importance(first, any_model.batches(kind))
    with passes(again) as counted:
        found = headspec.head_importance(again, any_model.batches(kind), per_example=True)
    assert len(counted) == 1 + len(any_model.batches(kind))
    known._known.clear()
    with passes(again) as counted:
        searched = headspec.head_importance(again, any_model.batches(kind), per_example=True)
    assert len(counted) > 8
    np.testing.assert_array_equal(found, searched)


@pytest.mark.parametrize(
    ("kind", "kinds", "unfused"), [("roberta", 1, 1), ("mpnet", 1, 0), ("t5", 3, 1)], ids=str
)
def test_heads_are_found_in_few_passes(kind, kinds, unfused):
    """One to find them, one each without gates, with gates of one and of own values, one for each attention
    that is checked, one with zeroed weights, and one unfused."""
    model = any_model.model(kind)
    known._known.clear()
    with passes(model) as counted:
        headspec.HeadGates(model)
    assert len(counted) == 4 + 2 * kinds + 1 + unfused


def adapted(model):
    config = peft.LoraConfig(target_modules=["query"], init_lora_weights=False)
    return peft.get_peft_model(model, config).base_model.model


@pytest.mark.parametrize(
    "change",
    [
        adapted,
        lambda model: headspec.remove_heads(model, {0: [1]}),
        lambda model: headspec.remove_heads(model, {0: [1], 1: [1]}),
        lambda model: any_model.model("roberta", num_attention_heads=2),
        lambda model: any_model.model("roberta", num_labels=5),
        lambda model: model.half(),
        lambda model: model.roberta.register_forward_hook(lambda *_: None) and model,
        lambda model: model.set_attn_implementation("eager") or model,
        lambda model: any_model.model("roberta-scores"),
    ],
    ids=[
        "adapters",
        "ragged",
        "removed",
        "heads",
        "labels",
        "precision",
        "hook",
        "attention",
        "other labels",
    ],
)
def test_heads_of_another_structure_are_not_taken(change):
    model = any_model.model("roberta")
    headspec.HeadGates(model)
    model = change(model)
    with passes(model) as counted:
        found = headspec.HeadGates(model)
    assert len(counted) > 6
    known._known.clear()
    pd.testing.assert_frame_equal(found.rows, headspec.HeadGates(model).rows)


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
            lambda batch: [{**batch, "labels": batch["labels"][:2]}],
            ValueError,
            "^batches: got labels of 2 examples for 3 in input_ids$",
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
    with pytest.raises(ValueError, match="^gates: got those of 3 examples for 2 sequences"):
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


LAYER = "roberta.encoder.layer.0.intermediate.dense"


@pytest.mark.parametrize(
    ("change", "lost"),
    [
        (quantized, "linear_dynamic in '{}'"),
        (replacing(lambda dense, x: torch.no_grad()(nn.Linear.forward)(dense, x)), "linear in '{}' .Linear."),
        (replacing(lambda dense, x: nn.Linear.forward(dense, x.detach())), "detach in "),
        (replacing(lambda dense, x: nn.Linear.forward(dense, x.data)), "__get__ in "),
        (replacing(lambda dense, x: Kernel.apply(x, dense.weight) + dense.bias), None),
        (replacing(lambda dense, x: nn.Linear.forward(dense, x) + torch.zeros_like(x).sum()), None),
        (replacing(lambda dense, x: nn.Linear.forward(dense, x) + x.detach().argmax().float() * 0), None),
    ],
    ids=["quantized", "without gradients", "detached", "data", "kernel", "zeros", "argmax"],
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


@pytest.fixture
def tokenizer(tmp_path):
    """A function that writes a tokenizer into a folder: the tokenizer."""

    def made(write):
        (tmp_path / "config.json").write_text('{"model_type": "roberta"}')
        write(tmp_path)
        return AutoTokenizer.from_pretrained(tmp_path)

    return made


def test_answers_are_scored_by_the_tokens_that_follow_their_prompts(tokenizer):
    tokenizer = tokenizer(qwen)
    model = any_model.model("pythia", vocab_size=len(tokenizer))
    prompts, answers = ["a good film is", "one"], [" fine", " two three"]

    def asked(**given):
        return headspec.head_importance(model, tokenizer=tokenizer, per_example=True, **given)

    for alone, prompt, answer in zip(asked(prompts=prompts, answers=answers), prompts, answers, strict=True):
        ids = tokenizer(prompt + answer, return_tensors="pt")["input_ids"]
        labels = ids.clone()
        labels[:, : len(tokenizer(prompt)["input_ids"])] = -100
        (expected,) = headspec.head_importance(
            model, [{"input_ids": ids, "labels": labels}], per_example=True
        )
        np.testing.assert_allclose(alone, expected, rtol=1e-3, atol=1e-6)
    many = asked(prompts=prompts * 10, answers=answers * 10)  # in batches of sixteen
    np.testing.assert_allclose(many, np.tile(many[:2], (10, 1, 1)), rtol=1e-3, atol=1e-6)
    for given, message in (
        ({"prompts": ["the love"], "answers": ["ly"]},
         "answers: got 'ly', which the tokenizer joins to 'the love'; expected one that .*, such as ' ly'"),
        ({"prompts": prompts, "answers": answers[:1]}, "answers: got 1, expected 2, one for each of prompts"),
        ({"prompts": prompts}, "got prompts, tokenizer; expected batches, or tokenizer, texts and labels"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            asked(**given)


def test_texts_have_labels_by_number_or_name(tokenizer):
    model = any_model.model("roberta", vocab_size=500)
    given = {"tokenizer": tokenizer(MODELS["roberta"][1]), "texts": ["one two", "three", "one"]}
    expected = headspec.head_importance(model, labels=[0, 2, 1], **given)
    named = ["LABEL_0", "LABEL_2", "LABEL_1"]
    for labels in (named, torch.tensor([0, 2, 1]), np.array([0.0, 2, 1]), (False, 2, True)):
        np.testing.assert_array_equal(headspec.head_importance(model, labels=labels, **given), expected)
    several = headspec.head_importance(model, labels=[[0, 1, 1], [1, 0, 0], [1, 1, 1]], **given)
    assert not np.allclose(several, expected)  # the model has not kept the kind of the first labels
    assert model.config.problem_type is None


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["LABEL_3"] * 3, "got 'LABEL_3'; the model has LABEL_0, LABEL_1, LABEL_2. Did you mean"),
        ([0, 1, 3], "got 3; the model has classes 0 to 2$"),
        ([0, 1, -100], "got -100; the model has classes 0 to 2$"),
        ([0, 0.5, 1], "got 0.5; the model has classes 0 to 2$"),
        ([0, None, 1], "got nan for example 1, expected a class or score$"),
        ([0, [1, 0], 1], "got some that are not numbers, expected a class or score of each$"),
        ([0, 1], "got 2, expected 3, one for each of texts$"),
        ("good", "got one str, expected several, such as in a list$"),
    ],
    ids=str,
)
def test_labels_that_do_not_fit_are_refused(tokenizer, labels, message):
    model = any_model.model("roberta", vocab_size=500)
    given = {"tokenizer": tokenizer(MODELS["roberta"][1]), "texts": ["one two", "three", "one"]}
    with pytest.raises(ValueError, match=f"^labels: {message}"):
        headspec.head_importance(model, labels=labels, **given)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("one two", "got one str, expected several"),
        ([], "got none$"),
        (["one", None], "got None for example 1, expected a text$"),
        (["one", ("one", "two")], "got rows of 1, 2, expected all texts, or all pairs$"),
        ([("one", "two", "three")] * 2, "got rows of 3, expected all texts, or all pairs$"),
    ],
    ids=str,
)
def test_texts_that_are_none_are_refused(tokenizer, texts, message):
    model, words = any_model.model("roberta", vocab_size=500), tokenizer(MODELS["roberta"][1])
    with pytest.raises(ValueError, match=f"^texts: {message}"):
        headspec.head_importance(model, tokenizer=words, texts=texts, labels=[0, 1])
    with pytest.raises(TypeError, match="^tokenizer: got Tokenizer, expected a tokenizer of transformers$"):
        headspec.head_importance(model, tokenizer=words.backend_tokenizer, texts=["one"], labels=[0])


TEXTS = ["one two three four five", "one", "the lovely tree"]


@pytest.fixture
def classifier(tokenizer):
    """A GPT-2 that classifies by the state of the last token, and its tokenizer, as in its files."""
    words = tokenizer(llama)
    words.pad_token = words.eos_token
    return any_model.model("gpt2-classes", vocab_size=len(words), pad_token_id=words.pad_token_id), words


def padding_left(tokenizer, model):
    tokenizer.padding_side = "left"


def cutting_left(tokenizer, model):
    tokenizer.truncation_side = "left"


def as_left_by_a_call(tokenizer, model):
    tokenizer(TEXTS, padding="max_length", truncation=True, max_length=4)
    tokenizer.backend_tokenizer.enable_padding(direction="left", length=50)


def other_types(tokenizer, model):
    tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]


def without_padding(tokenizer, model):
    tokenizer.pad_token = model.config.pad_token_id = None


@pytest.mark.parametrize(
    "change", [padding_left, cutting_left, as_left_by_a_call, other_types, without_padding]
)
def test_scores_of_texts_do_not_depend_on_the_state_of_the_tokenizer(classifier, change):
    model, words = classifier
    expected = []
    for text, label in zip(TEXTS, [0, 2, 1], strict=True):
        batch = {**words(text, return_tensors="pt"), "labels": torch.tensor([label])}
        expected.append(headspec.head_importance(model, [batch], per_example=True)[0])
    change(words, model)
    state = vars(words).copy(), words.backend_tokenizer.to_str()
    found = headspec.head_importance(model, tokenizer=words, texts=TEXTS, labels=[0, 2, 1], per_example=True)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6)
    assert (vars(words), words.backend_tokenizer.to_str()) == state


def test_special_tokens_that_texts_begin_with_are_there_once(classifier):
    """As `apply_chat_template` writes them."""
    model, words = classifier
    given = {"tokenizer": words, "per_example": True}
    chats = ["<s>" + text for text in TEXTS]
    expected, found = (
        headspec.head_importance(model, texts=texts, labels=[0, 2, 1], **given) for texts in (TEXTS, chats)
    )
    np.testing.assert_array_equal(found, expected)
    decoder, answers = any_model.model("pythia", vocab_size=len(words)), [" one", " two three", " the"]
    expected, found = (
        headspec.head_importance(decoder, prompts=prompts, answers=answers, **given)
        for prompts in (TEXTS, chats)
    )
    np.testing.assert_array_equal(found, expected)
    ids = words(chats[0] + answers[0], add_special_tokens=False, return_tensors="pt").input_ids
    labels = torch.where(torch.arange(ids.shape[1]) < ids.shape[1] - 1, -100, ids)
    (alone,) = headspec.head_importance(decoder, [{"input_ids": ids, "labels": labels}], per_example=True)
    np.testing.assert_allclose(found[0], alone, rtol=1e-3, atol=1e-6)


def test_special_tokens_around_what_encoder_decoders_read_and_write_are_there_once(tokenizer):
    model, words = any_model.model("t5", vocab_size=500), tokenizer(MODELS["roberta"][1])
    expected, found = (
        headspec.head_importance(model, tokenizer=words, prompts=[f"{a}one two{b}"], answers=[f"{a}three{b}"])
        for a, b in (("", ""), ("<s>", "</s>"))
    )
    np.testing.assert_array_equal(found, expected)


def test_long_texts_are_cut_and_long_prompts_refused(classifier, caplog):
    """Also by a tokenizer that does not know the model's positions."""
    model, words = classifier
    assert words.model_max_length > 10**9 and model.config.n_positions == 64
    long = "one two " * 100
    batch = {**words(long, truncation=True, max_length=64, return_tensors="pt"), "labels": torch.tensor([1])}
    expected = headspec.head_importance(model, [batch])
    found = headspec.head_importance(model, tokenizer=words, texts=[long], labels=[1])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-7)
    assert caplog.messages == ["1 of 1 texts have more than 64 tokens; their ends are cut"]
    decoder = any_model.model("pythia", vocab_size=len(words), max_position_embeddings=64)
    tokens = len(words(long + " two").input_ids)
    message = f"^prompts: example 1 has {tokens} tokens with its answer; the model takes at most 64$"
    with pytest.raises(ValueError, match=message):
        headspec.head_importance(decoder, tokenizer=words, prompts=["one", long], answers=[" two", " two"])


def test_prompts_are_texts_with_tokens(tokenizer):
    words = tokenizer(qwen)
    model = any_model.model("pythia", vocab_size=len(words))
    for prompts, message in (
        ([""], "prompts: got '' for example 0, which has no tokens; expected some$"),
        ([["one"]], r"prompts: got \['one'\] for example 0, expected a text$"),
        ("one", "prompts: got one str, expected several"),
    ):
        with pytest.raises(ValueError, match=f"^{message}"):
            headspec.head_importance(model, tokenizer=words, prompts=prompts, answers=[" two"])


def test_encoder_decoders_read_prompts_and_write_answers(tokenizer):
    model, tokenizer = any_model.model("t5", vocab_size=500), tokenizer(MODELS["roberta"][1])
    prompts, answers = ["one two", "three"], ["three", "one two three"]
    asked = headspec.head_importance(
        model, tokenizer=tokenizer, prompts=prompts, answers=answers, per_example=True
    )
    for found, prompt, answer in zip(asked, prompts, answers, strict=True):
        labels = tokenizer([answer], return_tensors="pt").input_ids
        batch = {**tokenizer([prompt], return_tensors="pt"), "labels": labels}
        (expected,) = headspec.head_importance(model, [batch], per_example=True)
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6)
