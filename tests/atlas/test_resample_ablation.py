"""Ablation by resampling, against full passes with contexts of another example."""

import numpy as np
import torch

from headspec.atlas.ablation import resample_ablation
from headspec.atlas.sample import sampled
from headspec.heads.ablations import aligned
from headspec.models.devices import Device
from support.reference.contexts import replaced
from support.reference.single_texts import alone, contexts, heads

SMALL = Device("cpu", None, tokens=40)  # several batches


@torch.no_grad()
def test_a_head_passes_on_what_it_made_of_another_text(made):
    """Tokens of a shorter text repeat; targets get what other targets have."""
    model, texts = made
    rows = sampled("a", len(texts), 9)
    found = resample_ablation(model, "a", texts, rows, SMALL)
    assert found.shape == (9, *model.gates.exists.shape)
    for i in (0, 4, 8):
        batch = alone(texts, rows[i])
        donor, own = contexts(model, alone(texts, rows[(i - 4) % 9])), contexts(model, batch)
        plain = model.losses("a", model.pool(batch), batch.labels)
        for row, head in heads(model):
            n, m = len(own[row]), len(donor[row])
            places = [(m - n + t) % m if model.pooling == "last" else t % m for t in range(n)]
            with replaced(model.gates, row, head, donor[row][places, head]):
                changed = model.losses("a", model.pool(batch), batch.labels)
            np.testing.assert_allclose(found[i, row, head], (changed - plain).item(), rtol=1e-3, atol=1e-5)
    assert np.abs(found).max() > 1e-3


def test_texts_are_aligned_at_their_first_or_last_token():
    own = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    other = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1]])
    assert aligned(own, other, at_end=False)[:, :3].tolist() == [[0, 1, 0], [0, 1, 2]]
    at_end = aligned(own, other, at_end=True)
    assert at_end[0].tolist() == [1, 0, 1, 0, 1] and at_end[1, :3].tolist() == [1, 2, 3]
