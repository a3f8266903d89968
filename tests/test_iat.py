"""IAT: whose rows move, and that nothing else of an unowned head does."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from headspec.architectures import ARCHITECTURES
from headspec.multitask import MultiTask
from headspec.projections import head_slices
from headspec.study import Training
from headspec.training import Checkpoint
from tiny import encoder, examples

CLASSES = {"a": ["x", "y"], "b": ["x", "y", "z"]}
SETTINGS = Training(batch_size=8, epochs=2, learning_rate=1e-3)


def model(kind: str = "bert", **settings) -> MultiTask:
    built = encoder(kind, **settings)
    torch.manual_seed(3)
    return MultiTask(built, "mean", CLASSES)


def data() -> dict:
    return {"a": examples(40, 2, 1), "b": examples(30, 3, 2)}


def never(folder) -> Checkpoint:
    return Checkpoint(folder / "checkpoint.pt", "f", 1e9)


def gradients(own: MultiTask, gates: torch.Tensor | None = None) -> None:
    """Of a batch's loss, in the weights; no dropout."""
    own.eval()
    own.gates.values = gates
    batch = examples(6).batch(np.arange(6))
    own.losses("a", own.pool(batch), batch.labels).sum().backward()
    own.gates.values = None


# --- what is whose


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_slices_are_those_of_their_heads(kind):
    """With every gate but one closed, exactly that head's slices have gradients."""
    own = model(kind)
    slices = head_slices(own.encoder, own.gates, "qkvo")
    layers, heads = own.gates.layers, own.gates.heads
    for layer, head in [(0, 0), (1, heads - 1), (layers - 1, 1)]:
        gates = torch.zeros(layers, heads)
        gates[layer, head] = 1
        own.zero_grad()
        gradients(own, gates)
        for part in slices:
            gradient = part.of(part.parameter.grad)
            if part.heads[layer, head]:
                # a bias of keys changes no attention
                assert gradient.abs().max() > 1e-9 or part.parameter.dim() == 1
            else:
                assert (gradient == 0).all(), (layer, head)


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_slices_cover_the_projections_once(kind):
    own = model(kind)
    slices = head_slices(own.encoder, own.gates, "qkvo")
    counts = {id(s.parameter): torch.zeros_like(s.parameter) for s in slices}
    for part in slices:
        part.of(counts[id(part.parameter)]).add_(1)
    assert all((count == 1).all() for count in counts.values())
    names = {id(p): name for name, p in own.encoder.named_parameters()}
    covered = {names[i] for i in counts}
    attentions = [re.match(r"(.*?\.)?[^.]*att[^.]*\.", name)[0] for name in own.gates.names]
    for name in names.values():
        inside = any(name.startswith(attention) for attention in attentions)
        other = "norm" in name.lower() or name in covered or name.removesuffix(".bias") in own.gates.names
        assert not inside or other, name
    assert set().union(*(zip(*np.nonzero(s.heads), strict=True) for s in slices)) == {
        (layer, head) for layer in range(own.gates.layers) for head in range(own.gates.heads)
    }
