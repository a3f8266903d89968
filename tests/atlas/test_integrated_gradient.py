"""Integrated gradients of gates."""

import numpy as np
import pytest
import torch

from headspec.atlas import relevance
from headspec.atlas.relevance import integrated_gradient
from support.tiny import CPU, by_family, examples, multitask

ROWS = np.array([3, 0, 2, 5])


@pytest.mark.parametrize("made", [*by_family(), "marian"], indirect=True)  # attention of T5 is too steep
def test_over_all_heads_it_is_what_closing_them_costs(made, monkeypatch):
    monkeypatch.setattr(relevance, "STEPS", 64)
    model, texts = made
    by_head, batch, losses = integrated_gradient(model, "a", texts, ROWS, CPU), texts.batch(ROWS), []
    assert model.gates.values is None
    for gate in (0.0, 1.0):
        model.gates.values = torch.full(model.gates.exists.shape, gate)
        with torch.no_grad():
            losses.append(model.losses("a", model.pool(batch), batch.labels).numpy())
    model.gates.values = None
    cost = losses[0] - losses[1]
    np.testing.assert_allclose(by_head.sum(axis=(1, 2)), cost, rtol=0.02, atol=0.02 * np.abs(cost).max())


def test_eight_steps_are_nearly_enough(monkeypatch):
    model = multitask("bert", {"a": ["x", "y", "z"]})
    few = integrated_gradient(model, "a", examples(6, 3), ROWS, CPU)
    monkeypatch.setattr(relevance, "STEPS", 64)
    many = integrated_gradient(model, "a", examples(6, 3), ROWS, CPU)
    assert np.corrcoef(few.ravel(), many.ravel())[0, 1] > 0.99
