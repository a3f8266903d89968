"""Heads that means or vectors of other examples replace, against passes of single texts with hooks."""

import numpy as np
import pytest
import torch

from headspec.errors import DataError
from headspec.heads.closing import closing
from headspec.heads.masks import Mask
from headspec.heads.pruning import evaluated
from headspec.models.devices import Device
from headspec.models.multitask import MultiTask
from headspec.seeds import derive
from support import tiny
from support.reference.contexts import at_outputs
from support.reference.single_texts import alone, contexts, separated
from support.tiers import cases
from support.translators import translator

SMALL = Device("cpu", None, tokens=40)  # several batches
KINDS = cases(["bert", "albert", "gpt2", "modernbert"], {"bert", "gpt2"}.__contains__)
N = 9


def regression(kind: str) -> MultiTask:
    """A model with larger weights of the task than usual."""
    model = tiny.multitask(kind, {"a": ["x", "y"], "r": None})
    with torch.no_grad():
        for parameter in model.classifier("r").parameters():
            parameter.mul_(20)
    return model


def planned(model) -> list[Mask]:
    exists = model.gates.exists
    some = exists & (np.random.default_rng(5).random(exists.shape) < 0.5)
    return [Mask("none", None, 0.0, None, exists & False), Mask("r", "top", 0.5, None, some)]


def ordered(n: int) -> np.ndarray:
    return np.random.default_rng(derive(0, "ablation", "r")).permutation(n)


def replaced(model, batch, vectors, heads) -> float:
    """The score of a text with `vectors` of each row, (tokens or 1, heads, size), in `heads`."""

    def change(row, context):
        changed = context.clone()
        changed[0][:, heads[row]] = vectors[row][:, heads[row]]
        return changed

    with torch.no_grad(), at_outputs(model.gates, change):
        return model.predictions("r", model.pool(batch), batch.labels).item()


@pytest.mark.parametrize(
    "kind", cases(["bert", "albert", "gpt2", "modernbert"], {"bert", "gpt2"}.__contains__)
)
def test_means_are_of_the_half_without_the_text(kind):
    model, texts, order = regression(kind), separated(N), ordered(N)
    none, mask = planned(model)
    found = evaluated(model, {"r": texts}, [none, mask], SMALL, ablation="mean")["r"].values
    plain = evaluated(model, {"r": texts}, [none], SMALL)["r"].values
    np.testing.assert_allclose(found[0], plain[0], rtol=1e-4, atol=1e-5)
    by_text = [contexts(model, alone(texts, row)) for row in range(N)]
    for half in (0, 1):
        others = [by_text[row] for row in order[1 - half :: 2]]
        means = [torch.cat(own).mean(0, keepdim=True) for own in zip(*others, strict=True)]
        for row in order[half::2]:
            expected = replaced(model, alone(texts, row), means, mask.closed)
            assert found[1][row] == pytest.approx(expected, rel=1e-3, abs=1e-4)
    assert np.abs(found[1] - found[0]).max() > 0.01


@pytest.mark.parametrize(
    "kind", cases(["bert", "albert", "gpt2", "modernbert"], {"bert", "gpt2"}.__contains__)
)
def test_vectors_are_of_the_text_half_of_all_further_on(kind):
    model, texts, order = regression(kind), separated(N), ordered(N)
    mask = planned(model)[1]
    found = evaluated(model, {"r": texts}, [mask], SMALL, ablation="resample")["r"].values[0]
    for place, row in enumerate(order):
        batch, donor = alone(texts, row), contexts(model, alone(texts, order[(place - N // 2) % N]))
        n, m = int(texts.lengths[row]), len(donor[0])
        places = [(m - n + t) % m if model.pooling == "last" else t % m for t in range(n)]
        vectors = [each[places] for each in donor]
        assert found[row] == pytest.approx(replaced(model, batch, vectors, mask.closed), rel=1e-3, abs=1e-4)


def test_random_masks_on_some_examples_have_the_means_of_all():
    model, texts = regression("bert"), separated(N)
    masks = [Mask("random", None, 0.5, draw, planned(model)[1].closed) for draw in range(2)]
    some = evaluated(model, {"r": texts}, masks, SMALL, 4, ablation="mean")["r"].values
    every = evaluated(model, {"r": texts}, masks, SMALL, ablation="mean")["r"].values
    assert (~some.mask).sum(1).tolist() == [4, 4]
    used = ~some.mask
    np.testing.assert_allclose(some[used], every[used], rtol=1e-4, atol=1e-5)


def test_every_beam_of_a_text_has_its_vectors(model_folder):
    """Texts written with several beams are the same in a batch as alone, and others than with zeros."""
    model, texts = translator(model_folder("marian"), "marian", 6)
    model.set_beams({"a": 3})
    mask = Mask("a", "top", 1.0, None, model.gates.exists)
    single = Device("cpu", None, tokens=1, fewest=1)
    alone, together = (
        evaluated(model, {"a": texts}, [mask], device, ablation="mean")["a"].texts
        for device in (single, SMALL)
    )
    assert alone.tolist() == together.tolist()
    assert together.tolist() != evaluated(model, {"a": texts}, [mask], SMALL)["a"].texts.tolist()


def test_a_single_example_has_no_other():
    model = regression("bert")
    with pytest.raises(DataError, match="pruning.ablation: got 'mean' with 1 validation example of task 'r'"):
        closing(model, "r", separated(1), "mean", SMALL)
