"""A model without its closed heads computes what it did with their gates closed."""

import numpy as np
import pytest
import torch

from headspec.errors import EncoderError
from headspec.models.export.slicing import remove_heads
from headspec.models.multitask import MultiTask
from support.tiny import HEADS, LAYERS, encoder, examples, multitask

#: kept heads; the sweep over all types has others
KEPT = {
    "some of each layer": np.array([[1, 0, 1, 0], [0, 1, 0, 0], [1, 1, 0, 1]], dtype=bool),
    "no layer but one": np.arange(LAYERS)[:, None] == np.full(HEADS, 1),
    "all": np.ones((LAYERS, HEADS), dtype=bool),
    "none": np.zeros((LAYERS, HEADS), dtype=bool),
}
SOME = KEPT["some of each layer"]


def model(kind: str, **settings) -> MultiTask:
    return multitask(kind, {"a": ["x", "y"], "b": None}, **settings)


@torch.no_grad()
def logits(net: MultiTask) -> torch.Tensor:
    """Logits of both tasks, (texts, 3), of padded texts."""
    pooled = net.pool(examples().batch(np.arange(12)))
    return torch.cat([net.logits(task, pooled) for task in net.classes], dim=1)


@pytest.mark.parametrize("kept", KEPT.values(), ids=KEPT)
@pytest.mark.parametrize("kind", ["bert", "albert"])
def test_removed_heads_are_closed_heads(kind, kept):
    net = model(kind)
    whole = logits(net)
    net.gates.values = torch.from_numpy(kept).float()
    expected = logits(net)
    net.gates.values = None
    net.encoder = remove_heads(net.encoder, ~kept)
    torch.testing.assert_close(logits(net), expected, rtol=0, atol=1e-5)
    assert kept.all() or (expected - whole).abs().max() > 1e-3, "heads matter"


def test_weights_of_removed_heads_are_gone():
    """A head of BERT has size rows of W_Q, W_K and W_V, 32 wide, their biases, and size columns of W_O."""
    gated, sliced = model("bert"), model("bert")
    sliced.encoder = remove_heads(sliced.encoder, ~SOME)
    size = 32 // HEADS
    whole, left = (sum(p.numel() for p in net.parameters()) for net in (gated, sliced))
    assert whole - left == 6 * (4 * size * 32 + 3 * size)


def test_layers_of_albert_go_on_sharing_all_but_attention():
    gated, sliced = model("albert"), model("albert")
    sliced.encoder = remove_heads(sliced.encoder, ~SOME)
    attention = [
        p.numel() for name, p in gated.named_parameters() if ".attention." in name and "Norm" not in name
    ]
    rest = sum(p.numel() for p in gated.parameters()) - sum(attention)
    size, bias = 32 // HEADS, 32  # the bias of W_O, which belongs to no head
    heads = int(SOME.sum()) * (4 * size * 32 + 3 * size)
    assert sum(p.numel() for p in sliced.parameters()) == rest + heads + bias


def test_heads_that_others_listen_to_cannot_be_removed():
    talking = model("deberta", talking_head=True)
    with pytest.raises(EncoderError, match="of this deberta cannot be removed: the others alone do not"):
        remove_heads(talking.encoder, SOME)


def test_another_grid_of_heads_is_refused():
    with pytest.raises(ValueError, match=r"got \(4, 3\), expected \(..., 3, 4\)"):
        remove_heads(encoder("bert"), np.ones((HEADS, LAYERS), dtype=bool))
