"""Evaluation of every task under pruning masks."""

import numpy as np
import pytest
import torch

from headspec import tables
from headspec.heads.masks import masks
from headspec.heads.pruning import (
    EVALUATION,
    PREDICTIONS,
    PRUNING,
    evaluated,
    evaluation_table,
    in_predictions,
    predictions,
    predictions_table,
    pruning_table,
)  # fmt: skip
from headspec.tasks.metrics import score
from support.tiny import CPU, HEADS, LAYERS

CLASSES = {"a": ["x", "y"], "b": ["x", "y", "z"], "r": None}
METRICS = {"a": ["accuracy", "f1"], "b": ["accuracy"], "r": ["spearman"]}


@pytest.fixture(scope="module")
def planned():
    rng = np.random.default_rng(0)
    return masks({t: rng.random((LAYERS, HEADS)) for t in CLASSES}, 0.3, [0.1, 0.5], draws=4, seed=1)


def test_random_masks_on_some_of_the_examples(model, data, planned):
    on_all = predictions(model, data, planned, CPU)
    found = evaluated(model, data, planned, CPU, draw_examples=5, seed=3)
    on_some = {task: answers.values for task, answers in found.items()}
    for task, of_task in data.items():
        for i, mask in enumerate(planned):
            used = ~on_some[task].mask[i]
            assert used.sum() == (len(of_task) if mask.draw is None else 5)
            np.testing.assert_allclose(on_some[task][i][used], on_all[task][i][used], rtol=1e-4, atol=1e-5)
        assert np.isfinite(on_some[task].compressed()).all() and not on_all[task].mask.any()
    table = pruning_table(planned, data, on_some, METRICS)
    assert len(table) == len(planned) * 4 and list(table) == list(PRUNING.columns)
    assert set(table[table["draw"].notna()]["n"]) == {5}
    base = table[(table["pruned_for"] == "none") & (table["metric"] == "f1")].iloc[0]
    assert base["value"] == score("f1", data["a"].label, on_some["a"][0]) and base["n"] == 23


def test_the_table_has_what_one_pass_per_mask_gives(model, data, planned, tmp_path):
    """Without pruning and under top heads; probabilities by class, of the regression none."""
    plain = evaluated(model, data, planned, CPU, draw_examples=5)
    found = evaluated(model, data, planned, CPU, draw_examples=5, probabilities=True)
    assert {task for task, answers in found.items() if answers.probabilities.size} == {"a", "b"}
    for task, answers in plain.items():
        assert answers.values.tobytes() == found[task].values.tobytes()
    path = tmp_path / "predictions.parquet"
    tables.write(path, PREDICTIONS, predictions_table(planned, data, plain), {})
    assert tables.read(path, probabilities=True)["probabilities"].isna().all()
    tables.write(path, PREDICTIONS, predictions_table(planned, data, found), {})
    assert "probabilities" not in tables.read(path)
    kept = tables.read(path, probabilities=True)
    assert kept[kept["task"] == "r"]["probabilities"].isna().all()
    assert len(kept) == (1 + 3 * 3) * (23 + 31 + 17)
    for mask in filter(in_predictions, planned):
        model.gates.values = torch.from_numpy(~mask.closed).float()
        for task, texts in data.items():
            rows = kept.query(
                "pruned_for == @mask.pruned_for and fraction == @mask.fraction and task == @task"
            )
            assert rows["example"].tolist() == list(range(len(texts)))
            assert rows["label"].tolist() == texts.label.tolist()
            rows = rows[::5]
            with torch.no_grad():
                alone = torch.cat([model.pool(texts.batch(np.array([row]))) for row in rows["example"]])
                predicted, logits = model.predictions(task, alone), model.logits(task, alone)
            np.testing.assert_allclose(rows["prediction"], predicted, rtol=1e-4, atol=1e-5)
            if task != "r":
                read = np.stack(rows["probabilities"])
                assert read.dtype == np.float32 and read.shape == (len(rows), len(CLASSES[task]))
                np.testing.assert_allclose(read, logits.softmax(1), rtol=1e-4, atol=1e-6)
    model.gates.values = None
    table = evaluation_table(model, data, CPU)
    unpruned = predictions_table(planned, data, plain).query("pruned_for == 'none'")[list(table)]
    assert list(table) == list(EVALUATION.columns) and table.equals(unpruned.reset_index(drop=True))
