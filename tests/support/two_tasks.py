"""A tiny model of two tasks, its training, and checkpoints that are never due, or after which jobs die."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from headspec.config.sections.training import Training
from headspec.models.multitask import MultiTask
from headspec.training.checkpoint import Checkpoint
from headspec.training.loop import Setup
from support.tiny import CPU, encoder, examples

CLASSES = {"a": ["x", "y"], "b": ["x", "y", "z"]}
NO_DROPOUT = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0)
#: of 18 steps, as two epochs have 5 batches of one task and 4 of the other
SETTINGS = Training(batch_size=8, epochs=2, learning_rate=1e-3)


def model(kind: str = "bert", **settings) -> MultiTask:
    built = encoder(kind, **settings)
    torch.manual_seed(3)
    return MultiTask(built, "mean", CLASSES)


def data() -> dict:
    return {"a": examples(40, 2, 1), "b": examples(30, 3, 2)}


def setup(**settings) -> Setup:
    """The training, with other settings."""
    return Setup(data(), SETTINGS.model_copy(update=settings), 7, CPU)


def never(folder) -> Checkpoint:
    return Checkpoint(folder / "checkpoint.pt", "f", 1e9)


@contextmanager
def dies_after(rows: int, key: str = "history") -> Iterator[None]:
    """A job that is killed once its checkpoint has this many rows."""
    save = Checkpoint.save

    def save_then_die(self: Checkpoint, state: dict) -> None:
        save(self, state)
        if len(state[key]) == rows:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Checkpoint, "save", save_then_die)
        yield


def weights(net: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Copies of a model's weights."""
    return {name: value.clone() for name, value in net.state_dict().items()}


def same(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    """Whether two models have the same weights, bit by bit."""
    state = other.state_dict()
    return all(torch.equal(value, state[name]) for name, value in one.state_dict().items())
