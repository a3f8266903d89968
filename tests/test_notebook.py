"""The functions of a notebook, on any model with its own task head."""

import copy
import subprocess
import sys
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers.pytorch_utils import Conv1D

import headspec
from headspec.errors import EncoderError, NumericalError
from headspec.models.attention.interface import WATCHERS
from support import pages
from support.model_types import any_model
from support.model_types.any_model import KINDS
from support.models import make, qwen
from support.paths import ROOT
from support.tiers import cases

QUICK = {
    "albert", "falcon-grouped", "mixtral", "mpnet", "pythia", "ragged", "roberta", "t5", "vit", "wav2vec2",
}  # fmt: skip
#: why the heads of a model cannot be removed
REFUSED = {
    "olmo2": "the others alone do not compute",  # a norm spans all heads
    "t5": "the others alone do not compute",  # one layer has the position biases of all
    "falcon-grouped": "queries, keys and values in one matrix",
}


@cache
def scores(kind: str) -> np.ndarray:
    return headspec.head_importance(any_model.model(kind), any_model.batches(kind), per_example=True)


@torch.no_grad()
def logits(model: PreTrainedModel, kind: str) -> torch.Tensor:
    return model.eval()(**KINDS[kind].batch()).logits


def some(kind: str) -> np.ndarray:
    """Heads that are pruned: all of the first layer, one of the last, so that groups are uneven."""
    gates = headspec.HeadGates(any_model.model(kind))
    heads = np.random.default_rng(2).permutation(np.arange(gates.exists.size) % 2 == 0)
    heads = heads.reshape(gates.exists.shape) & gates.exists
    heads[0] = gates.exists[0]
    heads[-1] = np.arange(gates.heads) == 1
    return heads


def without(kind: str, heads: np.ndarray) -> torch.Tensor:
    """The logits of a model whose columns of W_O are zero for these heads."""
    model = any_model.model(kind)
    gates = headspec.HeadGates(model)
    gates.remove()
    with torch.no_grad():
        for site in gates.sites:
            (row,) = site.rows
            site.columns()[heads[row, : site.heads]] = 0
    return logits(model, kind)


@pytest.mark.parametrize("kind", cases([kind for kind in KINDS if kind != "albert"], QUICK.__contains__))
def test_importance_is_the_product_of_weights_and_their_gradients(kind):
    """dL/dxi_h = sum(W_O[:, h] * dL/dW_O[:, h]) of the model's own loss of each example."""
    model = any_model.model(kind).eval()
    gates = headspec.HeadGates(model)
    gates.remove()
    expected = np.full((3, gates.layers, gates.heads), np.nan)
    for example in range(3):
        model.zero_grad()
        model(
            **{name: value[example : example + 1] for name, value in KINDS[kind].batch().items()}
        ).loss.backward()
        for site in gates.sites:
            weight = site.output.weight
            products = (weight * weight.grad).sum(0 if type(site.output) is not Conv1D else 1)
            expected[example, site.rows[0], : site.heads] = products.detach().view(site.heads, -1).sum(1)
    found = scores(kind)
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-5 * np.nanmax(np.abs(expected)))
    mean = headspec.head_importance(any_model.model(kind), any_model.batches(kind))
    np.testing.assert_allclose(mean, np.abs(expected).mean(0), rtol=2e-3, atol=2e-5 * np.nanmax(mean))


@pytest.mark.parametrize("kind", cases(KINDS, QUICK.__contains__))
def test_closed_heads_are_zero_columns_and_removed_heads(kind, tmp_path):
    model, heads = any_model.model(kind), some(kind)
    before, plain = copy.deepcopy(model.state_dict()), logits(model, kind)
    with headspec.HeadGates(model).closed(heads):
        expected = logits(model, kind)
    if kind != "albert":  # whose layers share their columns
        torch.testing.assert_close(expected, without(kind, heads), rtol=1e-4, atol=1e-5)
    assert (expected - plain).abs().max() > 1e-3 * plain.abs().max()  # heads matter
    assert torch.equal(logits(model, kind), plain)
    if kind in REFUSED:
        with pytest.raises(EncoderError, match=REFUSED[kind]):
            headspec.remove_heads(model, heads)
    else:
        small = headspec.remove_heads(model, heads)
        torch.testing.assert_close(logits(small, kind), expected, rtol=1e-3, atol=1e-4)
        assert kind == "albert" or small.num_parameters() < model.num_parameters()
        if kind == "wav2vec2":  # has a weight norm, which torch does not pickle
            again = headspec.remove_heads(any_model.model(kind), heads)
            again.load_state_dict(small.state_dict())
        else:
            torch.save(small, tmp_path / "small.pt")
            again = torch.load(tmp_path / "small.pt", weights_only=False)
        assert torch.equal(logits(again, kind), logits(small, kind))
        assert {p.requires_grad for p in small.parameters()} <= {p.requires_grad for p in model.parameters()}
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize(("kind", "removed"), [("falcon-grouped", (0, 2)), ("mixtral", (0, 1, 2))])
def test_keys_and_values_go_with_their_last_query_head(kind, removed):
    """Also where they are in one matrix, of a group as large as the others."""
    model, heads = any_model.model(kind), np.zeros((any_model.LAYERS, any_model.HEADS), dtype=bool)
    heads[:, removed] = True
    small = headspec.remove_heads(model, heads)
    with headspec.HeadGates(model).closed(heads):
        torch.testing.assert_close(logits(small, kind), logits(model, kind), rtol=1e-3, atol=1e-4)
    gone = {"falcon-grouped": 2 * 2, "mixtral": 2 * 3 + 2 * 1}[
        kind
    ]  # matrices of a head, of Mixtral's a group too
    assert model.num_parameters() - small.num_parameters() == any_model.LAYERS * gone * 8 * 32


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
        (lambda batch: [], ValueError, "batches: got none"),
        (lambda batch: batch, ValueError, r"batches: got one batch; expected several, such as \[batch\]"),
        (
            lambda batch: [{"input_ids": batch["input_ids"]}],
            EncoderError,
            "loss: missing; .* expected labels",
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
    with pytest.raises(EncoderError, match="of Roberta.* is no cross-entropy or squared error of its logits"):
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


def test_closed_heads_are_bool_and_of_the_model():
    gates = headspec.HeadGates(any_model.model("vit"))
    with pytest.raises(ValueError, match="closed heads: got torch.float64, expected bool"):
        gates.closed(np.zeros((2, 4)))
    with (
        pytest.raises(ValueError, match=r"gates: got \(4, 2\), expected \(\.\.\., 2, 4\)"),
        gates.at(np.ones((4, 2))),
    ):
        pass


def test_gates_of_examples_and_tokens_have_gradients():
    kind = "roberta"
    model, batch = any_model.model(kind).eval(), any_model.classified()
    gates = headspec.HeadGates(model)
    derivatives = scores(kind)
    xi = torch.ones(3, 7, gates.layers, gates.heads, requires_grad=True)
    with gates.at(xi):
        (gradient,) = torch.autograd.grad(3 * model(**batch).loss, xi)
    np.testing.assert_allclose(gradient.sum(1), derivatives, rtol=1e-3, atol=1e-5)
    closed = np.zeros((3, *gates.exists.shape), dtype=bool)
    closed[1] = True
    plain = logits(model, kind)
    with gates.closed(closed):
        changed = (logits(model, kind) - plain).abs().amax(1)
    assert changed[[0, 2]].max() < 1e-5 < changed[1]
    assert WATCHERS not in {name for module in model.modules() for name in vars(module)}


def test_a_copy_of_a_gated_model_loses_its_gates_with_its_heads():
    kind, heads = "roberta", some("roberta")
    model = any_model.model(kind)
    gates = headspec.HeadGates(model)
    with gates.closed(heads):
        expected = logits(model, kind)
        small = headspec.remove_heads(model, heads)
    torch.testing.assert_close(logits(small, kind), expected, rtol=1e-3, atol=1e-4)


def test_the_heat_map_has_scores_and_outlines():
    scores = np.array([[1.0, 0.5, np.nan], [0.0, 2.0, 3.0]])
    axes = headspec.heat_map(scores, headspec.top_heads(scores, 2), Figure().subplots())
    (image,) = axes.images
    np.testing.assert_array_equal(image.get_array().filled(np.nan), scores)
    assert {patch.get_xy() for patch in axes.patches} == {(0.5, 0.5), (1.5, 0.5)}
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("head", "layer")
    assert image.get_clim() == (0, 3)
    assert headspec.heat_map(-scores, axes=Figure().subplots()).images[0].get_clim() == (-3, 3)


def test_importing_headspec_loads_no_model():
    code = (
        "import sys, headspec; sys.exit(not sys.modules.keys().isdisjoint(['torch', 'numpy', 'matplotlib']))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert set(headspec.__all__) <= set(dir(headspec))
    assert all(getattr(headspec, name).__name__ == name for name in headspec.__all__)
    with pytest.raises(AttributeError, match="module 'headspec' has no attribute 'head_mask'"):
        _ = headspec.head_mask


@pytest.fixture
def named(tmp_path, monkeypatch):
    """A folder in which the names of models on the page are folders."""
    monkeypatch.chdir(tmp_path)
    make("roberta", tmp_path / "FacebookAI" / "roberta-base")
    folder = tmp_path / "EleutherAI" / "pythia-70m"
    folder.mkdir(parents=True)
    qwen(folder)
    size = len(AutoTokenizer.from_pretrained(folder))
    any_model.model("pythia", vocab_size=size).save_pretrained(folder)
    return tmp_path


def test_the_code_of_the_page_runs(named):
    page = ROOT / "docs" / "notebook.md"
    names: dict = {}
    for block in pages.blocks(page):
        exec(block.text, names)
    exec(
        next(each.text for each in pages.blocks(ROOT / "README.md") if each.heading == "In a notebook"),
        names | {"headspec": headspec, "evaluate": lambda model: model(**names["batches"][0])},
    )
    assert names["xi"].grad.abs().max() > 0
    assert names["small"].num_parameters() < names["model"].num_parameters()
    np.testing.assert_allclose(names["scores"], np.abs(names["signed"]).mean(0), rtol=1e-4)
    assert len(page.read_text(encoding="utf-8").split()) <= 500


def test_answers_are_scored_by_the_tokens_that_follow_their_prompts(named):
    model = AutoModelForCausalLM.from_pretrained("EleutherAI/pythia-70m")
    tokenizer = AutoTokenizer.from_pretrained("EleutherAI/pythia-70m")
    prompts, answers = ["a good film is", "one"], [" fine", " two three"]
    found = headspec.head_importance(
        model, tokenizer=tokenizer, prompts=prompts, answers=answers, per_example=True
    )
    for alone, prompt, answer in zip(found, prompts, answers, strict=True):
        ids = tokenizer(prompt + answer, return_tensors="pt")["input_ids"]
        labels = ids.clone()
        labels[:, : len(tokenizer(prompt)["input_ids"])] = -100
        (expected,) = headspec.head_importance(
            model, [{"input_ids": ids, "labels": labels}], per_example=True
        )
        np.testing.assert_allclose(alone, expected, rtol=1e-3, atol=1e-6)
    with pytest.raises(ValueError, match="answers: got 'ly', which the tokenizer joins to 'the love'"):
        headspec.head_importance(model, tokenizer=tokenizer, prompts=["the love"], answers=["ly"])
    with pytest.raises(ValueError, match="answers: got 1, expected 2, one for each of prompts"):
        headspec.head_importance(model, tokenizer=tokenizer, prompts=prompts, answers=answers[:1])
    with pytest.raises(ValueError, match="got prompts, tokenizer; expected batches, or tokenizer, texts"):
        headspec.head_importance(model, tokenizer=tokenizer, prompts=prompts)


def test_texts_have_labels_by_number_or_name(named):
    model = any_model.model("roberta", vocab_size=500)
    tokenizer = AutoTokenizer.from_pretrained("FacebookAI/roberta-base")
    texts = ["one two", "three", "one"]
    by_name, by_number = (
        headspec.head_importance(model, tokenizer=tokenizer, texts=texts, labels=labels)
        for labels in (["LABEL_0", "LABEL_2", "LABEL_1"], [0, 2, 1])
    )
    np.testing.assert_array_equal(by_name, by_number)
    with pytest.raises(
        ValueError, match="labels: got 'LABEL_3'; the model has LABEL_0, LABEL_1, LABEL_2. Did"
    ):
        headspec.head_importance(model, tokenizer=tokenizer, texts=["one"], labels=["LABEL_3"])


def test_encoder_decoders_read_prompts_and_write_answers(named):
    model = any_model.model("t5", vocab_size=500)
    tokenizer = AutoTokenizer.from_pretrained("FacebookAI/roberta-base")
    asked = headspec.head_importance(model, tokenizer=tokenizer, prompts=["one two"], answers=["three"])
    batch = {
        **tokenizer(["one two"], return_tensors="pt"),
        "labels": tokenizer(["three"], return_tensors="pt").input_ids,
    }
    np.testing.assert_allclose(asked, headspec.head_importance(model, [batch]), rtol=1e-5)
