"""The arithmetic of the benchmarks, and the tables that they make. No times are tested."""

import re
import subprocess
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig

from benchmarks import baselines, exported, large_studies, pruned, speed
from benchmarks.__main__ import BEGIN, END
from benchmarks.timing import measure, products, row
from benchmarks.workload import Workload
from headspec import tables
from headspec.config.reference import between
from headspec.config.sections.training import Training
from headspec.models.multitask import MultiTask
from support.paths import ROOT
from support.tiny import CPU, HEADS, LAYERS, encoder, examples

TOKENS = 24
SETTINGS = Training(batch_size=8, epochs=1, learning_rate=1e-3)


def build(**settings) -> MultiTask:
    small = encoder("bert", hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1, **settings)
    torch.manual_seed(5)
    return MultiTask(small, "mean", {"a": ["x", "y", "z"]})


@pytest.fixture(scope="module")
def work() -> Workload:
    torch.set_num_threads(1)
    sequences = examples(41, classes=3)
    parts = sequences, examples(9, classes=3), sequences, examples(6, classes=3)
    return Workload("sequences", "a", *parts, build, SETTINGS, CPU, rounds=1, width=TOKENS)


def assert_rows_of(heading: str, lines: list[str]) -> None:
    assert {line.count("|") for line in lines} == {heading.splitlines()[0].count("|")}


def test_losses_with_padding_are_compared(work, monkeypatch):
    """`loss_error` detects a learning rate that is 1 % off."""
    batch = work.train.batch(np.arange(5))
    assert baselines.padded(batch, TOKENS).input_ids.shape == (5, TOKENS) != batch.input_ids.shape
    assert speed.loss_error(work) < 1e-4
    train = baselines.train_padded

    def wrong(work, model, examples, settings):
        return train(work, model, examples, settings.model_copy(update={"learning_rate": 1.01e-3}))

    monkeypatch.setattr(speed, "train_padded", wrong)
    assert speed.loss_error(work) > 1e-4


@pytest.mark.parametrize(("kinds", "attention"), [(1, 4), (2, 12), (3, 12)])
def test_operations_are_counted_as_by_hand_and_by_torch(kinds, attention):
    """4 d^2 + 2 d m weights in a layer's matrices, 2 operations each per token and kind of product."""
    matrices, pairs = 4 * 32**2 + 2 * 32 * 48, 32 * (3**2 + 5**2)
    expected = LAYERS * (2 * kinds * matrices * (3 + 5) + attention * pairs)
    assert speed.flops(build(), np.array([3, 5]), kinds) == expected
    shapes = speed.layer_shapes(build())
    assert shapes == ([(32, 32)] * 4 + [(48, 32), (32, 48)]) * LAYERS
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


@pytest.mark.thorough
def test_every_row_says_that_contenders_compute_the_same(work):
    lines = list(speed.rows(work, heads=True))
    assert_rows_of(speed.HEADING, lines)
    training, peak, iat, importance, _, pruning, _, *ablation, atlas = lines
    assert float(training.split("within ")[1].strip(" |")) < 1e-4
    assert "matrix products alone" in peak and "IAT" in iat and "all measures of heads" in atlas
    assert "Spearman 1.00000" in importance and "100.0% of predictions" in pruning
    assert len(ablation) == 2
    assert all("one head ablated" in line and "100.0% of predictions" in line for line in ablation)


@pytest.mark.thorough
def test_exported_models_by_the_heads_that_are_left(work):
    longer = replace(work, build=partial(build, max_position_embeddings=exported.TOKENS))
    lines = list(exported.rows(longer))
    assert_rows_of(exported.HEADING, lines)
    cells = [line.split(" | ") for line in lines]
    assert [own[0] for own in cells] == [f"| {n} of {LAYERS * HEADS} heads" for n in (12, 6, 2, 0)]
    sizes = [float(own[1]) for own in cells]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > sizes[-1]
    assert cells[-1][3] == "0%" and cells[-1][5] == "0% |"
    batch = exported.whole_batch(work.score)
    assert batch.input_ids.shape == (exported.TEXTS, exported.TOKENS) and batch.attention_mask.all()
    assert batch.input_ids[0, : work.score.lengths[0]].tolist() == work.score.ids[0]


def test_pruned_models_by_the_heads_that_are_removed(monkeypatch, tmp_path, capsys):
    config = partial(BertConfig, hidden_size=32, intermediate_size=48, num_attention_heads=4)
    monkeypatch.setattr(pruned, "BertConfig", config)
    page = tmp_path / "page.md"
    page.write_text(pruned.BEGIN + pruned.END)
    pruned.main(page)
    measured = page.read_text().removeprefix(pruned.BEGIN).removesuffix(pruned.END)
    assert measured == "\n" + capsys.readouterr().out
    lines = [line for line in measured.splitlines() if line.startswith("|")]
    assert_rows_of(pruned.HEADING, lines)
    sizes = [float(line.split("|")[2]) for line in lines[2:]]
    assert len(sizes) == len(pruned.REMOVED) + 2
    stated = between(
        (ROOT / "docs/code/notebook.md").read_text(encoding="utf-8"), pruned.BEGIN, pruned.END, ""
    )
    assert pruned.BEGIN in stated


def test_the_page_has_a_place_for_the_tables():
    assert between((ROOT / "docs" / "performance.md").read_text(), BEGIN, END, "")


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_planning_loads_nothing_that_only_jobs_need(tmp_path):
    command = large_studies.planning(large_studies.pairs(tmp_path / "study", 3, 2))
    timed = [sys.executable, "-X", "importtime", "-m", *command]
    lines = subprocess.run(timed, capture_output=True, text=True, check=True).stderr.splitlines()
    imported = {line.rsplit("|", 1)[1].strip() for line in lines if line.startswith("import time:")}
    assert "headspec.pipeline.layout" in imported
    assert not imported & {"torch", "transformers", "sklearn", "matplotlib", "datasets", "peft"}


@pytest.mark.thorough
def test_a_simulated_mixture_shows_dissociation_and_is_analysed(tmp_path):
    one, other = (tables.read(path) for path in large_studies.mixture(tmp_path, 400, 2))
    assert (one["label"] == other["label"]).all() and (one["prediction"] != other["prediction"]).any()
    right = (one["label"] == one["prediction"]).groupby([one["task"], one["pruned_for"]]).mean()
    assert right["a"]["none"] > right["a"]["b"] > right["a"]["a"]
    line = large_studies.statistics_row(examples=40, seeds=3, resamples=20)
    assert_rows_of(large_studies.HEADING, [line])
    assert "3 seeds, 10 fractions, 40 examples" in line and "on 16 cores" in line
