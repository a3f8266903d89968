"""The contenders of the benchmark compute the same, and its arithmetic is right. No times are tested."""

import re
import subprocess
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import baselines, exported, large_studies, speed
from benchmarks.__main__ import BEGIN, END
from benchmarks.timing import measure, products, row
from benchmarks.workload import Workload
from headspec import tables
from headspec.config.reference import between
from headspec.config.sections.training import Training
from headspec.heads.importance import gate_gradients
from headspec.heads.masks import masks
from headspec.heads.pruning import predictions
from headspec.models.multitask import MultiTask
from support.paths import ROOT
from support.tiny import CPU, HEADS, LAYERS, encoder, examples

TASK, TOKENS = "a", 24
SETTINGS = Training(batch_size=8, epochs=1, learning_rate=1e-3)


def build(**settings) -> MultiTask:
    small = encoder("bert", hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1, **settings)
    torch.manual_seed(5)
    return MultiTask(small, "mean", {TASK: ["x", "y", "z"]})


@pytest.fixture(scope="module")
def work() -> Workload:
    torch.set_num_threads(1)
    sequences = examples(41, classes=3)
    parts = sequences, examples(9, classes=3), sequences, examples(6, classes=3)
    return Workload("sequences", TASK, *parts, build, SETTINGS, CPU, rounds=1, width=TOKENS)


def test_padding_does_not_change_vectors(work):
    batch = work.train.batch(np.arange(5))
    wide = baselines.padded(batch, TOKENS)
    length = batch.input_ids.shape[1]
    assert wide.input_ids.shape == wide.attention_mask.shape == (5, TOKENS)
    assert torch.equal(wide.input_ids[:, :length], batch.input_ids)
    assert torch.equal(wide.attention_mask.sum(1), batch.attention_mask.sum(1))
    model = build().eval()
    with torch.no_grad():
        torch.testing.assert_close(model.pool(wide), model.pool(batch), rtol=1e-4, atol=1e-5)


def test_losses_are_compared(work, monkeypatch):
    """`loss_error` detects a learning rate that is 1 % off."""
    assert speed.loss_error(work) < 1e-4
    train = baselines.train_padded

    def wrong(work, model, examples, settings):
        return train(work, model, examples, settings.model_copy(update={"learning_rate": 1.01e-3}))

    monkeypatch.setattr(speed, "train_padded", wrong)
    assert speed.loss_error(work) > 1e-4


def test_iat_moves_own_heads_and_plain_training_all(work):
    heads = np.zeros((2, LAYERS, HEADS), dtype=bool)
    heads[0, :, 0] = True
    plain, iat, before = build(), build(), build().state_dict()
    speed.train_bucketed(work, plain, work.train, SETTINGS)
    speed.train_heads(work, iat, heads)
    size = 32 // HEADS
    for model, moved in ((plain, 32), (iat, size)):
        name = "encoder.encoder.layer.1.attention.self.query.weight"
        same = (model.state_dict()[name] == before[name]).all(dim=1)
        assert not same[:moved].any() and same[moved:].all()


def test_importance_has_the_gradients_of_its_baseline(work):
    model = build()
    expected = baselines.gradients_one_by_one(work, model)
    gradients = gate_gradients(model, TASK, work.score, np.arange(len(work.score)), CPU)
    assert expected.shape == (41, LAYERS, HEADS)
    np.testing.assert_allclose(gradients, expected, rtol=1e-3, atol=1e-5 * np.abs(expected).max())


def test_pruning_has_the_predictions_of_its_baseline(work):
    model = build()
    planned = masks({TASK: np.arange(12.0).reshape(LAYERS, HEADS)}, 0.3, [0.3, 0.5], draws=3, seed=0)
    expected = baselines.predictions_one_by_one(work, model, planned, CPU)
    predicted = predictions(model, {TASK: work.score}, planned, CPU)[TASK]
    assert np.array_equal(predicted, expected)
    assert len(np.unique(expected, axis=0)) > 1  # masks matter


@pytest.mark.parametrize(("kinds", "attention"), [(1, 4), (2, 12), (3, 12)])
def test_flops(kinds, attention):
    """4 d^2 + 2 d m weights in a layer's matrices, 2 operations each per token and kind of product."""
    matrices, pairs = 4 * 32**2 + 2 * 32 * 48, 32 * (3**2 + 5**2)
    expected = LAYERS * (2 * kinds * matrices * (3 + 5) + attention * pairs)
    assert speed.flops(build(), np.array([3, 5]), kinds) == expected


@pytest.mark.parametrize("kinds", [1, 2, 3])
def test_products_are_of_the_layers_of_a_model(kinds):
    """torch counts as many operations as are said."""
    shapes = speed.layer_shapes(build())
    assert shapes[:6] == [(32, 32)] * 4 + [(48, 32), (32, 48)] and len(shapes) == 6 * LAYERS
    run, operations = products(shapes, 7, kinds, CPU)
    with FlopCounterMode(display=False) as counter:
        run()
    assert counter.get_total_flops() == operations


def test_contenders_take_turns_and_a_row_has_medians():
    order: list[str] = []
    seconds = measure([lambda: order.append("a"), lambda: order.append("b")], 3)
    assert "".join(order) == "ab" + "ba" + "ab" + "ba"
    assert seconds.shape == (2, 3) and (seconds > 0).all()
    line = row("what", np.array([10.0, 20.0, 100.0]), np.array([20.0, 80.0, 150.0]), "yes")
    assert line == "| what | 20.0 | 80.0 | 2.00 (1.50 to 4.00) | yes |"
    line = row("what", np.array([1.0]), np.array([1234.5]))
    assert line == "| what | 1.00 | 1,234 | 1,234 (1,234 to 1,234) |  |"


@pytest.mark.slow
def test_every_row_of_the_table(work):
    lines = list(speed.rows(work, heads=True))
    columns = speed.HEADING.splitlines()[0].count("|")
    assert all(line.count("|") == columns for line in lines)
    training, peak, iat, importance, _, pruning, _, *ablation, atlas = lines
    assert float(training.split("within ")[1].strip(" |")) < 1e-4
    assert "matrix products alone" in peak
    assert "IAT" in iat
    assert "Spearman 1.00000" in importance
    assert "100.0% of predictions" in pruning
    assert len(ablation) == 2
    assert all("one head ablated" in line and "100.0% of predictions" in line for line in ablation)
    assert "all measures of heads" in atlas


@pytest.mark.slow
def test_exported_models_by_the_heads_that_are_left(work):
    longer = replace(work, build=partial(build, max_position_embeddings=exported.TOKENS))
    lines = [line.split(" | ") for line in exported.rows(longer)]
    assert [cells[0] for cells in lines] == [f"| {n} of {LAYERS * HEADS} heads" for n in (12, 6, 2, 0)]
    assert all(len(cells) + 1 == exported.HEADING.splitlines()[0].count("|") for cells in lines)
    sizes = [float(cells[1]) for cells in lines]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > sizes[-1]
    assert lines[-1][3] == "0%" and lines[-1][5] == "0% |"
    batch = exported.whole_batch(work.score)
    assert batch.input_ids.shape == (exported.TEXTS, exported.TOKENS) and batch.attention_mask.all()
    assert batch.input_ids[0, : work.score.lengths[0]].tolist() == work.score.ids[0]


def test_the_page_has_a_place_for_the_tables():
    assert between((ROOT / "docs" / "performance.md").read_text(), BEGIN, END, "")


@pytest.mark.slow
def test_the_simulated_study_has_the_jobs_that_are_counted(tmp_path):
    config = large_studies.pairs(tmp_path / "study", 3, 2)
    printed = subprocess.run(
        [sys.executable, "-m", *large_studies.planning(config)], capture_output=True, text=True, check=True
    )
    total = re.search(r"^total +(\d+)$", printed.stdout + printed.stderr, re.MULTILINE)
    assert total and int(total[1]) == large_studies.n_jobs(config) + 1  # and `all`
    ballast = np.ones(10**8)  # 0.8 GB that are not the planning's
    cost = large_studies.elsewhere(large_studies.planned, config)
    assert cost.seconds > 1 and 0.05 < cost.gigabytes < 0.8 * ballast[0]


@pytest.mark.slow
def test_a_simulated_mixture_is_analysed():
    line = large_studies.statistics_row(examples=40, seeds=3, resamples=20)
    assert line.count("|") == large_studies.HEADING.splitlines()[0].count("|")
    assert "3 seeds, 10 fractions, 40 examples" in line and "on 16 cores" in line


def test_simulated_runs_differ_and_show_dissociation(tmp_path):
    one, other = (tables.read(path) for path in large_studies.mixture(tmp_path, 400, 2))
    assert (one["label"] == other["label"]).all() and (one["prediction"] != other["prediction"]).any()
    right = (one["label"] == one["prediction"]).groupby([one["task"], one["pruned_for"]]).mean()
    assert right["a"]["none"] > right["a"]["b"] > right["a"]["a"]
