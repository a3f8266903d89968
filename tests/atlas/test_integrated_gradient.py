"""Integrated gradients of gates."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headspec.atlas import integrated_gradient
from headspec.atlas.integrated_gradient import measure
from headspec.models.multitask import MultiTask
from support import tiny
from support.tiny import CPU, HEADS, LAYERS, by_family, encoder, examples

ROWS = np.array([3, 0, 2, 5])


@pytest.fixture(params=by_family())
def model(request) -> MultiTask:
    torch.manual_seed(1)
    pooling = tiny.pooling(request.param)
    return MultiTask(encoder(request.param), pooling, {"b": ["x", "y", "z"]}).eval()


def losses(model: MultiTask, gates: float) -> np.ndarray:
    batch = examples(6, 3).batch(ROWS, "cpu")
    model.gates.values = torch.full((LAYERS, HEADS), gates)
    with torch.no_grad():
        found = model.losses("b", model.pool(batch), batch.labels).numpy()
    model.gates.values = None
    return found


def test_over_all_heads_it_is_what_closing_them_costs(model, monkeypatch):
    monkeypatch.setattr(integrated_gradient, "STEPS", 64)
    of_heads = measure(model, "b", examples(6, 3), ROWS, CPU)
    cost = losses(model, 0.0) - losses(model, 1.0)
    np.testing.assert_allclose(of_heads.sum(axis=(1, 2)), cost, rtol=0.02, atol=0.02 * np.abs(cost).max())
    assert model.gates.values is None


def test_eight_steps_are_nearly_enough():
    torch.manual_seed(1)
    model = MultiTask(encoder("bert"), "first", {"b": ["x", "y", "z"]}).eval()
    few = measure(model, "b", examples(6, 3), ROWS, CPU)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(integrated_gradient, "STEPS", 64)
        many = measure(model, "b", examples(6, 3), ROWS, CPU)
    assert np.corrcoef(few.ravel(), many.ravel())[0, 1] > 0.99
