"""BLEU of what a translator writes while it is trained: what it costs, and that it changes nothing."""

import logging
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from sacrebleu.metrics import BLEU
from torch.utils.flop_counter import FlopCounterMode

from headspec.config.sections.training import Training
from headspec.models.batching import Examples
from headspec.models.multitask import MultiTask
from headspec.tasks.kinds.translation import decoding
from headspec.training.bleu_log import LOOKS, SHARE, BleuLog
from headspec.training.checkpoint import Checkpoint
from headspec.training.loop import Setup, train, trainer
from support.tiny import CPU
from support.translators import translator
from support.two_tasks import dies_after, same

SETTINGS = Training(batch_size=8, epochs=10, learning_rate=3e-3)
TRAINED, WATCHED = 60, 10  # examples
STEPS = SETTINGS.epochs * -(-TRAINED // SETTINGS.batch_size)


@pytest.fixture(scope="module")
def folder(model_folder) -> Path:
    return model_folder("marian")


def made(folder: Path) -> tuple[MultiTask, dict[str, Examples], dict[str, Examples]]:
    """A model that has learnt nothing, training examples, and others that are watched."""
    model, examples = translator(folder, "marian", TRAINED)
    return model, {"a": examples}, {"a": translator(folder, "marian", WATCHED)[1]}


def trained(folder: Path, kept: Path, watch: bool, seconds: float = 1e9) -> MultiTask:
    torch.set_num_threads(1)
    model, examples, watched = made(folder)
    checkpoint = Checkpoint(kept / "c.pt", "f", seconds)
    train(model, Setup(examples, SETTINGS, 7, CPU), checkpoint, validation=watched if watch else None)
    return model


@pytest.mark.slow
def test_weights_are_the_same_to_the_byte(folder, tmp_path, caplog):
    """With dropout, without BLEU as with it, and with BLEU before and after a kill."""
    alone = trained(folder, tmp_path / "alone", watch=False)
    assert alone.encoder.config.dropout > 0
    with caplog.at_level(logging.INFO, "headspec"):
        watched = trained(folder, tmp_path / "watched", watch=True)
    assert len(re.findall(r"; BLEU: a [\d.]+$", caplog.text, re.MULTILINE)) > 1
    assert same(alone, watched)

    with dies_after(STEPS // 2):
        trained(folder, tmp_path / "killed", watch=True, seconds=0)
    assert same(alone, trained(folder, tmp_path / "killed", watch=True))


def bleu_log(folder: Path, longest: int = 16, settings: Training = SETTINGS) -> BleuLog:
    model, examples, watched = made(folder)
    model.classifier("a").longest = longest
    with trainer(model, Setup(examples, settings, 7, CPU)) as run:
        return BleuLog(model, watched, run.steps, examples, CPU)


def test_measuring_gives_the_bleu_of_what_the_model_writes_and_leaves_everything_as_it_was(folder):
    """The mode of each module, and the random numbers."""
    log = bleu_log(folder)
    batch, model = log.examples["a"].batch(np.arange(WATCHED)), log.model
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(40):
        model.losses("a", model.pool(batch), batch.labels).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    model.train().encoder.get_encoder().eval()
    modes = {name: module.training for name, module in model.named_modules()}
    torch.manual_seed(5)
    random = torch.get_rng_state()
    found = log.measure()
    assert torch.equal(torch.get_rng_state(), random)
    assert {name: module.training for name, module in model.named_modules()} == modes
    model.eval()
    with torch.no_grad():
        states = model.pool(batch)
        texts = decoding.written(model.encoder, states, batch.labels, model.classes["a"], model.tokenizer)
    expected = BLEU().corpus_score(texts, [batch.labels.texts]).score
    assert found == f"BLEU: a {expected:.1f}" and expected > 1


@pytest.mark.slow
def test_measuring_takes_a_small_share_of_the_operations(folder):
    log = bleu_log(folder)
    assert log.after and max(log.after) == STEPS - 1
    with FlopCounterMode(display=False) as looks:
        log.measure()
    model, examples, _ = made(folder)
    with trainer(model, Setup(examples, SETTINGS, 7, CPU)) as run, FlopCounterMode(display=False) as training:
        for step in [step for step in run.steps if step.epoch == 0]:
            batch = examples["a"].batch(step.rows)
            model.losses("a", model.pool(batch), batch.labels).mean().backward()
    whole = SETTINGS.epochs * training.get_total_flops()
    assert 0 < len(log.after) * looks.get_total_flops() < SHARE * whole


@pytest.mark.parametrize(
    ("settings", "longest", "looks"),
    [
        ({"epochs": 400}, 16, LOOKS),
        ({"epochs": 1}, 16, 0),  # not even one at ten sentences
        ({}, 10**4, 0),  # of which each could take that long
    ],
)
def test_measurements_are_as_many_as_training_pays_for(folder, settings, longest, looks):
    log = bleu_log(folder, longest, SETTINGS.model_copy(update=settings))
    assert len(log.after) == looks == bool(log.rows) * len(log.after)
