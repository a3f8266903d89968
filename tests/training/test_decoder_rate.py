"""Decoders of words with a learning rate of their own."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch

from headspec.config.sections.training import Training
from headspec.models.multitask import MultiTask
from headspec.training.gated import Fixed, Sets
from headspec.training.iat import End
from headspec.training.loop import Setup, trainer
from headspec.training.variants.leaking import Leaking
from headspec.training.variants.lora import LoRA
from headspec.training.variants.own import Own
from support import tiny
from support.two_tasks import never

RATE, FASTER, PEAK = 1e-4, 5e-3, 3e-4
CLASSES = {"tone": ["bad", "good"], "pos": tiny.TAGS}
OWN = np.eye(tiny.LAYERS, tiny.HEADS, dtype=bool)
HEADS = {"tone": OWN, "pos": ~OWN}
ENDS = {
    "IAT": End(Own(HEADS, "qkv")),
    "leaking": End(Leaking(HEADS, "qkv")),
    "LoRA": End(LoRA(HEADS, "qkv", seed=0)),
    "rewarmed": End(Own({task: mask | True for task, mask in HEADS.items()}, "qkv"), peak=PEAK),
}


@pytest.mark.parametrize(
    ("task", "way"), [("tone", None), ("pos", None), ("pos", "gates"), *(("pos", end) for end in ENDS)]
)
@pytest.mark.parametrize("faster", [None, FASTER])
def test_decoders_step_as_far_as_their_rate_says(tmp_path, task, way, faster):
    """The classifier of a text has the encoder's rate.

    AdamW's first step changes a weight by its learning rate, whatever the gradient.
    """
    settings = Training(batch_size=8, epochs=9, learning_rate=RATE, decoder_learning_rate=faster, clip=None)
    torch.manual_seed(0)
    model = MultiTask(tiny.encoder("bert"), "mean", CLASSES)
    examples = {"pos": tiny.tagged(8), "tone": tiny.examples(8)}[task]
    with trainer(model, Setup({task: examples}, settings, 0, tiny.CPU)) as run:
        if way == "gates":
            run.gating = Fixed(Sets([task], per_task=False), np.ones((1, tiny.LAYERS, tiny.HEADS), bool))
        with ENDS[way].applied(run) if way in ENDS else nullcontext():
            before = {p: p.detach().clone() for p in model.parameters()}
            run.run(1, never(tmp_path))
            change = {p: (p - old).abs().max().item() for p, old in before.items()}
    of_head = [change.pop(p) for p in model.classifier(task).parameters()]
    rate = PEAK if way == "rewarmed" else RATE
    assert max(change.values()) == pytest.approx(rate, rel=1e-2)
    own = faster and task == "pos"
    assert max(of_head) == pytest.approx(rate * (FASTER / RATE if own else 1), rel=1e-2)
