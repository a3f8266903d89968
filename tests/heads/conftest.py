"""A tiny model of three tasks, one of them a regression, and their examples."""

import pytest
import torch

from headspec.models.multitask import MultiTask
from support.tiny import encoder, examples

CLASSES = {"a": ["x", "y"], "b": ["x", "y", "z"], "r": None}


@pytest.fixture(scope="module")
def model() -> MultiTask:
    torch.manual_seed(2)
    return MultiTask(encoder("bert"), "mean", CLASSES).eval()


@pytest.fixture(scope="module")
def data():
    return {"a": examples(23, 2, 1), "b": examples(31, 3, 2), "r": examples(17, 5, 3)}
