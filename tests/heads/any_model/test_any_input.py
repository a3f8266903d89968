"""Models with unusual inputs: heads are found, scored and removed, or refused as the page says."""

import numpy as np
import pytest
import torch
from torch import nn

import headspec
from headspec.errors import ModelError
from headspec.heads.any_model import user_model
from headspec.models.attention.gate_checks import first
from headspec.models.multitask import MultiTask
from support.model_types import any_input, any_model
from support.model_types.any_input import FOLDED, KINDS
from support.tiers import cases

QUICK = {"MvpForSequenceClassification", "SwinForImageClassification", "T5ForSequenceClassification"}


@pytest.mark.parametrize("kind", cases(KINDS, QUICK.__contains__))
def test_what_works_is_what_the_page_says(kind):
    """Scores equal those of plain hooks, and smaller models compute the same; else a message says why."""
    assert any_input.found(kind) == any_input.stated()[kind]


def test_the_page_lists_each_model_once():
    assert [*any_input.stated()] == sorted(KINDS)
    assert any_input.table([*any_input.stated().values()]) in any_input.PAGE.read_text(encoding="utf-8")


def outputs(kind, model, batch):
    """What a model returns for each example."""
    found = model(**batch)
    return found.prediction_logits if "PatchTST" in kind else first(found)


@pytest.mark.parametrize("kind", cases(FOLDED, QUICK.__contains__))
def test_windows_in_the_batch_take_gates_of_all_examples_and_none_of_each(kind):
    model, (batch,) = any_input.made(kind)
    gates = user_model.gated(model, batch)
    assert gates.folded
    heads = np.zeros_like(gates.exists)
    heads[-1, 0] = heads[0, 1] = True
    ones = [{name: value[i : i + 1] for name, value in batch.items()} for i in range(3)]
    with torch.no_grad():
        with gates.closed(heads):
            closed = outputs(kind, model, batch)
            alone = torch.cat([outputs(kind, model, one) for one in ones])
        torch.testing.assert_close(closed, alone, rtol=1e-3, atol=1e-4)
        assert not torch.allclose(closed, outputs(kind, model, batch), rtol=1e-3)
    message = r"^gates: got \(3, .* for a model that folds windows, .* of row \d; expected \(\d, \d\)$"
    with pytest.raises(ValueError, match=message), gates.closed(np.stack([heads] * 3)):
        model(**batch)


def test_scores_of_models_with_windows_are_those_of_gates_alone():
    """Of gates (layers, heads): the derivative of the sum over examples, and the rise of each loss."""
    kind = "SwinForImageClassification"
    model, (batch,) = any_input.made(kind)
    gates = headspec.HeadGates(model)
    xi = torch.ones(gates.layers, gates.heads, requires_grad=True)
    with gates.at(xi):
        (gradient,) = torch.autograd.grad(3 * model(**batch).loss, xi)
    signed = headspec.head_importance(model, [batch], score="signed", per_example=True)
    summed = -signed.sum(0)
    np.testing.assert_allclose(summed[gates.exists], gradient[gates.exists], rtol=1e-3, atol=1e-6)
    exact = headspec.head_importance(model, [batch], score="ablation")
    with torch.no_grad():
        plain = model(**batch).loss
        with gates.closed({0: [1]}):
            closed = model(**batch).loss
    np.testing.assert_allclose(exact[0, 1], float(closed - plain), rtol=1e-2, atol=1e-5)
    for score in ("tokens", "mean_ablation", "resample_ablation"):
        message = f"^score: got '{score}' for a model that folds .*; expected gradient, signed, integrated"
        with pytest.raises(ValueError, match=message):
            headspec.head_importance(model, [batch], score=score)


def test_arguments_with_other_rows_than_examples_are_not_divided():
    batch = {"pixel_values": torch.zeros(6, 3), "labels": torch.tensor([0, 1, 2])}
    with pytest.raises(ValueError, match="^batches: pixel_values has 6 rows for 3 examples, which the model"):
        [*user_model.one_by_one(batch, "input_ids")]


def test_a_study_takes_no_model_with_windows():
    with pytest.raises(ModelError, match="swin cannot be gated by text"):
        MultiTask(any_input.made("SwinForImageClassification")[0], "mean", {"a": ["x", "y"]})


def replica(module: nn.Module) -> nn.Module:
    """A module as `torch.nn.DataParallel` copies it to each of several GPUs, in every pass."""
    made = module._replicate_for_data_parallel()
    for name, child in module._modules.items():
        setattr(made, name, child and replica(child))
    for name, parameter in module._parameters.items():
        setattr(made, name, None if parameter is None else parameter.detach().clone())
    return made


def test_gates_act_in_a_wrapper_and_are_refused_on_its_replicas():
    model, batch = any_model.model("roberta").eval(), any_model.classified()
    wrapped, gates = nn.DataParallel(model), headspec.HeadGates(model)
    with gates.closed({0: [1]}):
        expected = model(**batch).logits
        assert torch.equal(wrapped(**batch).logits, expected)
    copied = replica(model)
    assert torch.equal(copied(**batch).logits, model(**batch).logits)
    with (
        pytest.raises(ModelError, match="did not act: .* and replicas cannot be gated"),
        gates.closed({0: [1]}),
    ):
        copied(**batch)
    message = "^model: got DataParallel, expected a model of transformers, such as its .module$"
    for use in (headspec.HeadGates, lambda model: headspec.remove_heads(model, {0: [1]})):
        with pytest.raises(TypeError, match=message):
            use(wrapped)
    with pytest.raises(TypeError, match=message):
        headspec.head_importance(wrapped, [batch])


@pytest.mark.parametrize("heads", [{0: [0]}, {0: [0], 1: [1]}, {0: [0, 2], 1: [1]}, {0: [0, 1, 2]}], ids=str)
def test_keys_in_one_matrix_with_queries_serve_different_numbers_of_heads(heads, tmp_path):
    """Also where what is left is pruned again, saved and loaded."""
    model, (batch,) = any_input.made("Phi3ForCausalLM with grouped keys")
    for removed in (heads, {0: [0], 1: [2]}):
        with torch.no_grad(), headspec.HeadGates(model).closed(removed):
            expected = model(**batch).logits
        size = model.num_parameters()
        model = headspec.remove_heads(model, removed)
        torch.testing.assert_close(model(**batch).logits, expected, rtol=1e-3, atol=1e-4)
        assert model.num_parameters() < size
        size = model.num_parameters()
    headspec.save(model, tmp_path)
    torch.testing.assert_close(headspec.load(tmp_path)(**batch).logits, expected, rtol=1e-3, atol=1e-4)
