"""Ablation by resampling, against full passes with contexts of another example."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headspec.atlas.resample_ablation import aligned, measure
from headspec.atlas.sample import sampled
from headspec.models.devices import Device
from headspec.models.multitask import MultiTask
from support import tiny
from support.contexts import replaced, seen
from support.tiny import HEADS, LAYERS, by_family, encoder, examples

SMALL = Device("cpu", None, tokens=40)  # several batches


@pytest.mark.parametrize("kind", by_family())
@torch.no_grad()
def test_a_head_passes_on_what_it_made_of_another_text(kind):
    torch.manual_seed(1)
    pooling = tiny.pooling(kind)
    model = MultiTask(encoder(kind), pooling, {"a": ["x", "y", "z"], "r": None}).eval()
    texts = examples(14, 3, seed=2)
    rows = sampled("a", len(texts), 11)
    found = measure(model, "a", texts, rows, SMALL)
    assert found.shape == (11, LAYERS, HEADS)
    for i in (0, 4, 10):
        batch = texts.batch(rows[[i]])
        n = int(batch.attention_mask.sum())
        with seen(model.gates) as donor:
            model.pool(texts.batch(rows[[(i - 5) % 11]]))
        plain = model.losses("a", model.pool(batch), batch.labels)
        m = donor[0].shape[1]
        places = [(m - n + t) % m if pooling == "last" else t % m for t in range(n)]
        for layer, head in [(0, 0), (1, 3), (LAYERS - 1, 2)]:
            with replaced(model.gates, layer, head, donor[layer][0, places, head]):
                changed = model.losses("a", model.pool(batch), batch.labels)
            np.testing.assert_allclose(found[i, layer, head], (changed - plain).item(), rtol=1e-3, atol=1e-5)
    assert np.abs(found).max() > 1e-3


def test_texts_are_aligned_at_their_first_or_last_token():
    own = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    other = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1]])
    assert aligned(own, other, at_end=False)[:, :3].tolist() == [[0, 1, 0], [0, 1, 2]]
    at_end = aligned(own, other, at_end=True)
    assert at_end[0].tolist() == [1, 0, 1, 0, 1] and at_end[1, :3].tolist() == [1, 2, 3]


def test_heads_lose_nothing_where_all_texts_are_alike():
    torch.manual_seed(1)
    model = MultiTask(encoder("bert"), "mean", {"a": ["x", "y", "z"]}).eval()
    texts = examples(6, 3, seed=2)
    texts.ids, texts.lengths = [texts.ids[0]] * 6, np.full(6, texts.lengths[0])
    np.testing.assert_allclose(measure(model, "a", texts, np.arange(6), SMALL), 0, atol=1e-5)
