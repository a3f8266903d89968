"""What measures take from single-task runs: samples of training examples, and classifiers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headspec.models.batching import Examples
from headspec.models.multitask import MultiTask
from headspec.seeds import derive

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def sampled(examples: Mapping[str, Examples], most: int, seed: int) -> dict[str, np.ndarray]:
    """Draw at most `most` rows of each task, in random order."""
    rngs = {task: np.random.default_rng(derive(seed, "sensitivity samples", task)) for task in examples}
    return {task: rngs[task].permutation(len(each))[:most] for task, each in examples.items()}


def under_one_encoder(encoder: PreTrainedModel, folders: Mapping[str, Path]) -> MultiTask:
    """Return `encoder` with the classifiers of the single-task models in `folders`, by task."""
    classes: dict[str, Any] = {}
    states = []
    for task, folder in folders.items():
        alone = MultiTask.load(folder)
        classes[task] = alone.classes[task]
        states.append(alone.classifier(task).state_dict())
    model = MultiTask(encoder, alone.pooling, classes)
    for head, state in zip(model.heads, states, strict=True):
        head.load_state_dict(state)
    return model.eval()
