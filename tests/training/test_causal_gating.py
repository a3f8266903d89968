"""Heads that facilitate, interfere or do nothing, made so."""

import copy

import numpy as np
import pytest
import torch

import headspec
from headspec.errors import ModelError, NumericalError
from support.model_types import any_model

#: enough for a gate to go from open to closed
FEW = {"steps": 35, "rate": 0.3}


@pytest.fixture(scope="module")
def made():
    """A model and answers of it without head 1 of the last layer, of which head 0 has most effect."""
    model = copy.deepcopy(any_model.model("roberta")).eval()
    with torch.no_grad():
        for layer, head, scale in ((1, 0, 12), (1, 1, 12), (1, 2, 0.01), (0, 3, 0.01)):
            output = model.roberta.encoder.layer[layer].attention.output.dense.weight
            output[:, 8 * head : 8 * (head + 1)] *= scale
        model.classifier.out_proj.weight *= 20
    ids = torch.randint(3, 60, (32, 7), generator=torch.Generator().manual_seed(0))
    with torch.no_grad(), headspec.HeadGates(model).closed({1: [1]}):
        labels = model(input_ids=ids).logits.argmax(-1)
    return model, [{"input_ids": ids[i : i + 16], "labels": labels[i : i + 16]} for i in (0, 16)]


def test_heads_that_help_harm_and_do_nothing(made):
    model, batches = made
    before = {name: value.clone() for name, value in model.state_dict().items()}
    table = headspec.causal_head_gating(model, batches, **FEW).set_index(["layer", "head"])
    assert table["role"][1, 0] == "facilitating" and table["role"][1, 1] == "interfering"
    assert table["role"][1, 2] == table["role"][0, 3] == "irrelevant"
    assert table["facilitating"].idxmax() == (1, 0) and table["interfering"].idxmax() == (1, 1)
    assert table["irrelevant"][1, 2] > 0.9 and table["facilitating"][1, 0] > 0.7
    values = table[["facilitating", "interfering", "irrelevant"]]
    assert values.stack().between(0, 1).all()
    product = (1 - table["interfering"]) * (1 - table["facilitating"])
    np.testing.assert_allclose(product, table["irrelevant"])
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(parameter.requires_grad and parameter.grad is None for parameter in model.parameters())


def test_heads_under_a_large_penalty_are_all_irrelevant(made):
    table = headspec.causal_head_gating(*made, penalty=9, **FEW)
    assert set(table["role"]) == {"irrelevant"} and (table["irrelevant"] > 0.95).all()


def test_it_takes_prompts_and_heads_of_every_tower():
    """Only heads that exist have rows."""
    for kind in ("pythia", "whisper"):
        model = any_model.model(kind)
        table = headspec.causal_head_gating(model, any_model.batches(kind), steps=1)
        assert len(table) == headspec.HeadGates(model).exists.sum()


@pytest.mark.parametrize(("given", "said"), [
    ({"penalty": 0}, "penalty: got 0, expected more than 0"), ({"steps": 0}, "steps: got 0"),
    ({"rate": -0.1}, "rate: got -0.1"), ({"batches": []}, "batches: got none"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(made, given, said):
    model, batches = made
    with pytest.raises(ValueError, match=f"^{said}"):
        headspec.causal_head_gating(model, **{"batches": batches} | given)


def test_a_loss_without_heads_or_numbers_is_refused(made):
    model, batches = made
    with pytest.raises(ModelError, match="has no derivative"):
        headspec.causal_head_gating(model, batches, lambda outputs, batch: torch.ones(16))
    with pytest.raises(NumericalError, match="loss in step 0"):
        headspec.causal_head_gating(model, batches, lambda outputs, batch: outputs.logits[:, 0] / 0)
