"""Effects of heads closed together, as a ranking of the atlas."""

import numpy as np
import pytest
import torch

from headspec.atlas.knockouts import knockouts
from headspec.heads.knockouts import joint
from headspec.seeds import derive
from support.tiny import CPU, examples, multitask


@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_effects_are_those_on_losses_by_half(kind):
    model, texts, rows = multitask(kind, {"a": ["x", "y"]}), examples(9), np.array([4, 0, 7, 2, 8])
    exists = model.gates.exists
    found = knockouts(model, "a", texts, rows, CPU)
    assert found.shape == (5, *exists.shape)
    closed = joint.drawn(exists, int(exists.sum()), np.random.default_rng(derive(0, "knockouts", "a")))
    batch = texts.batch(rows)
    losses = []
    with torch.no_grad():
        for heads in [exists & False, *closed]:
            with model.gates.closed(heads):
                losses.append(model.losses("a", model.pool(batch), batch.labels).numpy())
    rises = np.array(losses[1:], dtype=float) - losses[0]
    for half in (0, 1):
        expected, _ = joint.fitted(closed[:, exists], rises[:, half::2])
        np.testing.assert_allclose(found[half::2][:, exists], expected, atol=1e-4)
    assert np.isnan(found[:, ~exists]).all() and np.abs(found[:, exists]).max() > 1e-3
