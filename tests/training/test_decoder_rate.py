"""Decoders of words with a learning rate of their own."""

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from headspec.config.sections.training import Training
from headspec.models.batching import Examples
from headspec.models.multitask import MultiTask
from headspec.training.iat import End
from headspec.training.loop import Setup, Trainer, trainer
from headspec.training.pruned.gated import Fixed, Sets
from headspec.training.variants.leaking import Leaking
from headspec.training.variants.lora import LoRA
from headspec.training.variants.own import Own
from support import tiny
from support.two_tasks import never

RATE, FASTER, PEAK = 1e-4, 5e-3, 3e-4
CLASSES = {"tone": ["bad", "good"], "pos": {"type": "tags", "labels": ["X", "Y"]}}
OWN = np.eye(tiny.LAYERS, tiny.HEADS, dtype=bool)
HEADS = {"tone": OWN, "pos": ~OWN}
ENDS = {
    "IAT": End(Own(HEADS, "qkv")),
    "leaking": End(Leaking(HEADS, "qkv")),
    "LoRA": End(LoRA(HEADS, "qkv", seed=0)),
    "rewarmed": End(Own({task: mask | True for task, mask in HEADS.items()}, "qkv"), peak=PEAK),
}


def sentences() -> Examples:
    """Five words of one token each, tagged by turns."""
    frame = pd.DataFrame({"example": np.arange(8), "label": 1.0, "token_type_ids": None})
    frame["input_ids"] = [list(range(5 + row, 10 + row)) for row in range(8)]
    frame["words"] = [np.arange(5)] * 8
    frame["units"] = [[[word, (word + row) % 2] for word in range(5)] for row in range(8)]
    frame["target"] = "[]"
    return Examples.for_task(frame, CLASSES["pos"])


def largest_steps(run: Trainer, folder: Path) -> tuple[float, float]:
    """By how much the first step changes a weight of the decoder, and any other, at most.

    AdamW's first step changes a weight by its learning rate, whatever the gradient.
    """
    decoder = {id(p) for p in run.model.classifier("pos").parameters()}
    before = {p: p.detach().clone() for p in run.model.parameters()}
    run.run(1, never(folder))
    change = {p: (p - old).abs().max().item() for p, old in before.items()}
    of_decoder, others = (
        max(value for p, value in change.items() if (id(p) in decoder) == inside) for inside in (True, False)
    )
    return of_decoder, others


@pytest.mark.parametrize("way", [None, "gates", *ENDS])
@pytest.mark.parametrize("faster", [None, FASTER])
def test_decoders_step_as_far_as_their_rate_says(tmp_path, way, faster):
    settings = Training(batch_size=8, epochs=9, learning_rate=RATE, decoder_learning_rate=faster, clip=None)
    torch.manual_seed(0)
    model = MultiTask(tiny.encoder("bert"), "mean", CLASSES)
    with trainer(model, Setup({"pos": sentences()}, settings, 0, tiny.CPU)) as run:
        if way == "gates":
            run.gating = Fixed(Sets(["pos"], per_task=False), np.ones((1, tiny.LAYERS, tiny.HEADS), bool))
        with ENDS[way].applied(run) if way in ENDS else nullcontext():
            of_decoder, others = largest_steps(run, tmp_path)
    rate = PEAK if way == "rewarmed" else RATE
    assert others == pytest.approx(rate, rel=1e-2)
    assert of_decoder == pytest.approx(rate * (faster / RATE if faster else 1), rel=1e-2)


def test_classifiers_of_texts_keep_the_rate_of_the_encoder(tmp_path):
    settings = Training(batch_size=8, learning_rate=RATE, decoder_learning_rate=FASTER, clip=None)
    torch.manual_seed(0)
    model = MultiTask(tiny.encoder("bert"), "mean", CLASSES)
    with trainer(model, Setup({"tone": tiny.examples()}, settings, 0, tiny.CPU)) as run:
        before = model.classifier("tone").weight.detach().clone()
        run.run(1, never(tmp_path))
        change = (model.classifier("tone").weight - before).abs().max().item()
    assert change == pytest.approx(RATE, rel=1e-2)
