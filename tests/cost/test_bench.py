"""The contenders of the benchmark compute the same, and its arithmetic is right. No times are tested."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from headspec import tables
from headspec.config.reference import between
from headspec.config.sections.training import Training
from headspec.cost.bench import baselines, export, large
from headspec.cost.bench import report as bench
from headspec.cost.bench.texts import Workload
from headspec.cost.bench.timing import products
from headspec.errors import HeadspecError
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
    return Workload("sequences", TASK, sequences, examples(9, classes=3), sequences, examples(6, classes=3))


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


def test_both_ways_of_training_have_the_same_losses(work, monkeypatch):
    """`loss_error` detects a learning rate that is 1 % off."""
    assert bench.loss_error(work, build, SETTINGS, CPU, TOKENS) < 1e-4
    train = baselines.train_padded
    off = {"learning_rate": 1.01e-3, "batch_size": 6, "epochs": 3}

    def wrong(model, task, examples, settings, device, tokens):
        return train(model, task, examples, SETTINGS.model_copy(update=off), device, tokens)

    monkeypatch.setattr(bench, "train_padded", wrong)
    assert bench.loss_error(work, build, SETTINGS, CPU, TOKENS) > 1e-4


def test_iat_moves_own_heads_and_plain_training_all(work):
    heads = np.zeros((2, LAYERS, HEADS), dtype=bool)
    heads[0, :, 0] = True
    plain, iat, before = build(), build(), build().state_dict()
    bench.train_bucketed(plain, TASK, work.train, SETTINGS, CPU)
    bench.train_heads(iat, TASK, work.train, SETTINGS, CPU, heads)
    size = 32 // HEADS
    for model, moved in ((plain, 32), (iat, size)):
        name = "encoder.encoder.layer.1.attention.self.query.weight"
        same = (model.state_dict()[name] == before[name]).all(dim=1)
        assert not same[:moved].any() and same[moved:].all()


def test_both_ways_of_importance_have_the_same_gradients(work):
    model = build()
    expected = baselines.gradients_one_by_one(model, TASK, work.score, CPU)
    gradients = gate_gradients(model, TASK, work.score, np.arange(len(work.score)), CPU)
    assert expected.shape == (41, LAYERS, HEADS)
    np.testing.assert_allclose(gradients, expected, rtol=1e-3, atol=1e-5 * np.abs(expected).max())


def test_both_ways_of_pruning_have_the_same_predictions(work):
    model = build()
    planned = masks({TASK: np.arange(12.0).reshape(LAYERS, HEADS)}, 0.3, [0.3, 0.5], draws=3, seed=0)
    expected = baselines.predictions_one_by_one(model, TASK, work.score, planned, CPU)
    predicted = predictions(model, {TASK: work.score}, planned, CPU)[TASK]
    assert np.array_equal(predicted, expected)
    assert len(np.unique(expected, axis=0)) > 1  # masks matter


@pytest.mark.parametrize(("kinds", "attention"), [(1, 4), (2, 12), (3, 12)])
def test_flops(kinds, attention):
    """4 d^2 + 2 d m weights in a layer's matrices, 2 operations each per token and kind of product."""
    matrices, pairs = 4 * 32**2 + 2 * 32 * 48, 32 * (3**2 + 5**2)
    expected = LAYERS * (2 * kinds * matrices * (3 + 5) + attention * pairs)
    assert bench.flops(build(), np.array([3, 5]), kinds) == expected


@pytest.mark.parametrize("kinds", [1, 2, 3])
def test_products_are_of_the_layers_of_a_model(kinds):
    """torch counts as many operations as are said."""
    shapes = bench.layer_shapes(build())
    assert shapes[:6] == [(32, 32)] * 4 + [(48, 32), (32, 48)] and len(shapes) == 6 * LAYERS
    run, operations = products(shapes, 7, kinds, CPU)
    with FlopCounterMode(display=False) as counter:
        run()
    assert counter.get_total_flops() == operations


def test_contenders_take_turns_and_a_row_has_medians():
    order: list[str] = []
    seconds = bench.measure([lambda: order.append("a"), lambda: order.append("b")], 3, CPU)
    assert "".join(order) == "ab" + "ba" + "ab" + "ba"
    assert seconds.shape == (2, 3) and (seconds > 0).all()
    line = bench.row("what", np.array([10.0, 20.0, 100.0]), np.array([20.0, 80.0, 150.0]), "yes")
    assert line == "| what | 20.0 | 80.0 | 2.00 (1.50 to 4.00) | yes |"
    line = bench.row("what", np.array([1.0]), np.array([1234.5]))
    assert line == "| what | 1.00 | 1,234 | 1,234 (1,234 to 1,234) |  |"


@pytest.mark.slow
def test_every_row_of_the_table(work):
    lines = list(bench.rows(work, build, SETTINGS, CPU, rounds=1, tokens=TOKENS))
    columns = bench.HEADING.splitlines()[0].count("|")
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
    longer = partial(build, max_position_embeddings=export.TOKENS)
    lines = [line.split(" | ") for line in export.rows(longer, work.score, rounds=1)]
    assert [cells[0] for cells in lines] == [f"| {n} of {LAYERS * HEADS} heads" for n in (12, 6, 2, 0)]
    assert all(len(cells) + 1 == export.HEADING.splitlines()[0].count("|") for cells in lines)
    sizes = [float(cells[1]) for cells in lines]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > sizes[-1]
    assert lines[-1][3] == "0%" and lines[-1][5] == "0% |"
    batch = export.whole_batch(work.score)
    assert batch.input_ids.shape == (export.TEXTS, export.TOKENS) and batch.attention_mask.all()
    assert batch.input_ids[0, : work.score.lengths[0]].tolist() == work.score.ids[0]


def test_the_table_goes_between_its_markers():
    text = f"before\n{bench.BEGIN}\nold\n{bench.END}\nafter\n"
    once = between(text, bench.BEGIN, bench.END, "\nnew\n")
    assert (
        once
        == f"before\n{bench.BEGIN}\nnew\n{bench.END}\nafter\n"
        == between(once, bench.BEGIN, bench.END, "\nnew\n")
    )
    with pytest.raises(HeadspecError, match="no place for the table"):
        between("no markers", bench.BEGIN, bench.END, "")
    between((ROOT / "docs" / "performance.md").read_text(), bench.BEGIN, bench.END, "")


@pytest.mark.slow
def test_the_simulated_study_has_the_jobs_that_are_counted(tmp_path):
    config = large.pairs(tmp_path / "study", 3, 2)
    printed = subprocess.run(
        [sys.executable, "-m", *large.planning(config)], capture_output=True, text=True, check=True
    )
    total = re.search(r"^total +(\d+)$", printed.stdout + printed.stderr, re.MULTILINE)
    assert total and int(total[1]) == large.n_jobs(config) + 1  # and `all`
    ballast = np.ones(10**8)  # 0.8 GB that are not the planning's
    cost = large.elsewhere(large.planned, config)
    assert cost.seconds > 1 and 0.05 < cost.gigabytes < 0.8 * ballast[0]


@pytest.mark.slow
def test_a_simulated_mixture_is_analysed():
    line = large.statistics_row(examples=40, seeds=3, resamples=20)
    assert line.count("|") == large.HEADING.splitlines()[0].count("|")
    assert "3 seeds, 10 fractions, 40 examples" in line and "on 16 cores" in line


def test_simulated_runs_differ_and_show_dissociation(tmp_path):
    one, other = (tables.read(path) for path in large.mixture(tmp_path, 400, 2))
    assert (one["label"] == other["label"]).all() and (one["prediction"] != other["prediction"]).any()
    right = (one["label"] == one["prediction"]).groupby([one["task"], one["pruned_for"]]).mean()
    assert right["a"]["none"] > right["a"]["b"] > right["a"]["a"]
