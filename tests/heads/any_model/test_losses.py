"""Losses of examples in closed form, and losses that the shape of labels excludes."""

import numpy as np
import pytest
import torch
from scipy.special import logsumexp

from headspec.heads.any_model import batches
from headspec.heads.any_model.batches import IGNORED
from headspec.heads.any_model.losses import cross_entropy, squared_error

LOGITS = np.random.default_rng(0).normal(size=(3, 4, 5)).astype("float32")
TOKENS = np.array([[0, 4, IGNORED, 2], [IGNORED] * 4, [1, IGNORED, IGNORED, IGNORED]])
FIRST = np.array([0, 4, 3])


def computed(loss, logits: torch.Tensor, labels: torch.Tensor) -> np.ndarray:
    found = loss(logits, labels)
    assert found is not None
    return found.numpy()


def expected(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Mean over the labelled tokens of each example; 0 without any."""
    terms = logsumexp(logits, axis=-1) - np.take_along_axis(logits, labels.clip(0)[..., None], -1)[..., 0]
    real = labels != IGNORED
    return (terms * real).sum(1) / real.sum(1).clip(1)


def test_cross_entropy_is_a_mean_over_labelled_tokens():
    logits = torch.from_numpy(LOGITS)
    found = computed(cross_entropy, logits, torch.from_numpy(TOKENS))
    np.testing.assert_allclose(found, expected(LOGITS, TOKENS), 1e-5)
    classes = expected(LOGITS[:, :1], FIRST[:, None])
    for labels in (torch.from_numpy(FIRST), torch.from_numpy(FIRST)[:, None]):  # classes, or a column of them
        np.testing.assert_allclose(computed(cross_entropy, logits[:, 0], labels), classes, 1e-5)
    ignored = torch.tensor([0, IGNORED, 3])
    np.testing.assert_allclose(computed(cross_entropy, logits[:, 0], ignored), classes * [1, 0, 1], 1e-5)


@pytest.mark.parametrize(
    ("shape", "labels"),
    [((3, 5), torch.zeros(3)), ((3, 1), torch.zeros(3, dtype=int)), ((3, 5), torch.zeros(3, 5, dtype=int)),
     ((3, 4, 5), torch.zeros(3, dtype=int))],
    ids=["scores", "a logit", "labels of classes", "classes of tokens"],
)  # fmt: skip
def test_cross_entropy_needs_a_class_for_each_row_of_logits(shape, labels):
    assert cross_entropy(torch.zeros(shape), labels) is None


def test_squared_error_is_a_mean_over_scores():
    logits, labels = torch.from_numpy(LOGITS[:, 0]), torch.from_numpy(LOGITS[:, 1])
    means = ((LOGITS[:, 0] - LOGITS[:, 1]) ** 2).mean(axis=1)
    np.testing.assert_allclose(computed(squared_error, logits, labels), means, 1e-5)
    one = torch.from_numpy(FIRST)  # integers, one for each example
    np.testing.assert_allclose(
        computed(squared_error, logits[:, :1], one), (LOGITS[:, 0, 0] - FIRST) ** 2, 1e-5
    )
    assert squared_error(logits, one) is None


def test_examples_of_a_batch_are_rows_of_its_tensors():
    batch = {
        "ids": torch.arange(6).view(3, 2),
        "scale": torch.tensor(2.0),
        "table": torch.ones(5),
        "names": "abc",
    }
    part = batches.rows(batch, slice(1, 2))
    assert batches.count(batch) == 3 and part["ids"].tolist() == [[2, 3]] and part["names"] == "abc"
    assert part["scale"] is batch["scale"] and part["table"] is batch["table"]
    with pytest.raises(ValueError, match="batches: got scale, none of them a tensor with a row for each"):
        batches.count({"scale": batch["scale"]})
