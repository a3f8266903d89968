"""Ablation of single heads: against losses and predictions of full passes; means by half; tables."""

import numpy as np
import pytest
import torch

from headspec.atlas.ablation import (
    ABLATED,
    ABLATION,
    MEAN_ABLATION,
    SIZE,
    Ablated,
    ablate,
    heads_table,
    predictions_table,
)
from headspec.atlas.cumulative import half_maps
from headspec.atlas.sample import HEAD_FOLDS
from headspec.errors import NumericalError
from headspec.models.devices import Device
from headspec.models.internals.resuming import ablating
from headspec.per_example import labels_and_predictions
from support.reference.contexts import replaced
from support.reference.single_texts import alone, contexts, heads
from support.tiny import CPU, KINDS, examples, multitask

CLASSES = {"a": ["x", "y", "z"], "r": None}
BOTH = (ABLATION, MEAN_ABLATION)
SMALL = Device("cpu", None, tokens=40)  # several batches


@pytest.fixture(scope="module")
def ablated(made) -> tuple[np.ndarray, dict[str, Ablated]]:
    """Rows in two halves, and what their ablation finds for each task."""
    model, texts = made
    rows = np.random.default_rng(0).permutation(len(texts))[:6]
    return rows, {task: ablate(model, task, texts, rows, SMALL, BOTH) for task in model.classes}


@torch.no_grad()
def test_ablation_is_a_full_pass_with_a_closed_gate(made, ablated):
    model, texts = made
    batch = texts.batch(ablated[0])
    for task, found in ablated[1].items():
        plain = model.losses(task, model.pool(batch), batch.labels).numpy()
        np.testing.assert_allclose(found.loss, plain, rtol=1e-4, atol=1e-5)
        for head in [*heads(model)][::5]:
            model.gates.values = torch.ones(model.gates.exists.shape)
            model.gates.values[head] = 0
            states = model.pool(batch)
            increase = model.losses(task, states, batch.labels).numpy() - plain
            predicted = model.predictions(task, states, batch.labels).numpy()
            model.gates.values = None
            np.testing.assert_allclose(found.increase[ABLATION][:, *head], increase, rtol=1e-3, atol=1e-5)
            np.testing.assert_allclose(found.predictions[ABLATION][:, *head], predicted, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_mean_ablation_gives_every_token_the_mean_of_the_other_half(made, ablated):
    """In full passes, with contexts replaced by a hook; texts, too, are written with them."""
    (model, texts), (rows, found) = made, ablated
    increases, predictions = found["a"].increase[MEAN_ABLATION], found["a"].predictions[MEAN_ABLATION]
    for half in (0, 1):
        of_texts = [contexts(model, alone(texts, row)) for row in rows[1 - half :: 2]]
        batch = texts.batch(rows[half::2])
        plain = model.losses("a", model.pool(batch), batch.labels)
        for row, head in heads(model):
            mean = torch.cat([of_text[row][:, head] for of_text in of_texts]).mean(0, keepdim=True)
            with replaced(model.gates, row, head, mean):
                states = model.pool(batch)
                increase = (model.losses("a", states, batch.labels) - plain).numpy()
                predicted = model.predictions("a", states, batch.labels).numpy()
            np.testing.assert_allclose(increases[half::2, row, head], increase, rtol=1e-3, atol=1e-5)
            assert np.array_equal(predictions[half::2, row, head], predicted)


def test_tables(made, ablated):
    """Predicted texts are several numbers."""
    (rows, by_task), texts, shape = ablated, made[1], made[0].gates.exists.shape
    for task, found in by_task.items():
        table = heads_table(task, found)
        assert set(table.columns) == set(HEAD_FOLDS.columns) and set(table["measure"]) == {*BOTH, SIZE}
        assert len(table) == 3 * len(rows) * np.prod(shape)  # fewer than folds
        for name, values in {SIZE: np.abs(found.increase[ABLATION]), **found.increase}.items():
            np.testing.assert_allclose(half_maps(table, task, name)[1], values[1::2].mean(axis=0), atol=1e-6)
        table = predictions_table(task, texts, rows, found)
        assert set(ABLATED.columns) <= set(table.columns)
        assert not table.duplicated(list(ABLATED.columns)[:5]).any()
        assert len(table) == (1 + 2 * np.prod(shape)) * len(rows)
        closed = table[(table["measure"] == ABLATION) & (table["layer"] == 1) & (table["head"] == 2)]
        pruned = found.predictions[ABLATION][:, 1, 2]
        for part, predicted in ((table[table["measure"].isna()], found.prediction), (closed, pruned)):
            label, prediction = labels_and_predictions(part.set_index("example").loc[texts.example[rows]])
            np.testing.assert_array_equal(prediction, predicted)
            np.testing.assert_array_equal(label, texts.label[rows])


@torch.no_grad()
def test_what_stands_in_for_a_head_is_that_of_the_text_of_every_beam(marian):
    """Texts written with several beams are the same in a batch as alone."""
    model, texts = marian
    vectors = torch.randn(3, 1, 8, generator=torch.Generator().manual_seed(0))

    def written(rows: np.ndarray) -> list[str]:
        batch = texts.batch(rows)

        def run() -> torch.Tensor:
            return model.encoder.generate(
                input_ids=batch.input_ids, attention_mask=batch.attention_mask, num_beams=2, do_sample=False,
                max_new_tokens=6,
            )  # fmt: skip

        with ablating(model, "a") as passes:
            ids = passes.without(KINDS["encoder"] + KINDS["decoder"], 1, run, vectors[rows])
        return [model.tokenizer.decode(row, skip_special_tokens=True) for row in ids.tolist()]

    assert written(np.arange(3)) == [written(np.array([row]))[0] for row in range(3)]


def test_a_loss_that_is_not_finite_is_refused():
    model = multitask("bert", CLASSES)
    torch.nn.init.constant_(model.classifiers[0].weight, torch.nan)
    with pytest.raises(NumericalError, match="losses of task 'a' with heads ablated"):
        ablate(model, "a", examples(4, 3), np.arange(4), CPU)
