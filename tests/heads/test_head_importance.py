"""Importance of heads in any model of transformers, by batches, texts and prompts."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import AutoTokenizer
from transformers.pytorch_utils import Conv1D

import headspec
from headspec.errors import EncoderError, NumericalError
from support.model_types import any_model
from support.model_types.any_model import KINDS, QUICK
from support.models import MODELS, qwen
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
            EncoderError,
            "loss: missing; .* expected labels in it, or `loss`$",
        ),
    ],
)
def test_batches_that_do_not_do(change, error, message):
    with pytest.raises(error, match=message):
        headspec.head_importance(any_model.model("roberta"), change(any_model.classified()))


def test_a_loss_that_is_none_of_those_known_is_asked_for():
    model = any_model.model("roberta")
    usual = model.forward

    def forward(**batch):
        outputs = usual(**batch)
        return SimpleNamespace(logits=outputs.logits, loss=outputs.loss + 1 if "labels" in batch else None)

    model.forward = forward
    message = "of Roberta.* is no cross-entropy or squared error of its logits, expected `loss`$"
    with pytest.raises(EncoderError, match=message):
        headspec.head_importance(model, [any_model.classified()])


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
    by_name, by_number = (
        headspec.head_importance(model, labels=labels, **given)
        for labels in (["LABEL_0", "LABEL_2", "LABEL_1"], [0, 2, 1])
    )
    np.testing.assert_array_equal(by_name, by_number)
    message = "labels: got 'LABEL_3'; the model has LABEL_0, LABEL_1, LABEL_2. Did you mean"
    with pytest.raises(ValueError, match=message):
        headspec.head_importance(model, labels=["LABEL_3"] * 3, **given)


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
