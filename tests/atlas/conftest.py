"""A model of every architecture with a task on texts, including encoder-decoders."""

import pytest

from headspec.models.batching import Examples
from headspec.models.multitask import MultiTask
from support import tiny
from support.models import TRANSLATORS
from support.reference.single_texts import separated
from support.tiny import by_family
from support.translators import translator

N = 9


@pytest.fixture(scope="module", params=[*by_family(), *by_family(TRANSLATORS)])
def made(request, model_folder) -> tuple[MultiTask, Examples]:
    """A model with the task `a`, encoders and decoders with the regression `r` too, and `N` texts."""
    name = request.param
    if name in TRANSLATORS:
        return translator(model_folder(name), name, N)
    return tiny.multitask(name, {"a": ["x", "y", "z"], "r": None}), separated(N)


@pytest.fixture(scope="module")
def marian(model_folder) -> tuple[MultiTask, Examples]:
    return translator(model_folder("marian"), "marian", N)
