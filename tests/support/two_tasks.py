"""A tiny model of two tasks, their examples, and a checkpoint that is never due."""

from __future__ import annotations

import torch

from headspec.models.multitask import MultiTask
from headspec.training.checkpoint import Checkpoint
from support.tiny import encoder, examples

CLASSES = {"a": ["x", "y"], "b": ["x", "y", "z"]}


def model(kind: str = "bert", **settings) -> MultiTask:
    built = encoder(kind, **settings)
    torch.manual_seed(3)
    return MultiTask(built, "mean", CLASSES)


def data() -> dict:
    return {"a": examples(40, 2, 1), "b": examples(30, 3, 2)}


def never(folder) -> Checkpoint:
    return Checkpoint(folder / "checkpoint.pt", "f", 1e9)
