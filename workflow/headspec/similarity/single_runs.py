"""What measures take from single-task runs: samples of training examples, and classifiers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headspec.models.batching import Examples
from headspec.models.devices import Device
from headspec.models.multitask import MultiTask
from headspec.progress import Progress
from headspec.seeds import derive

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def sampled(examples: Mapping[str, Examples], most: int, seed: int) -> dict[str, np.ndarray]:
    """Draw at most `most` rows of each task, in random order."""
    rngs = {task: np.random.default_rng(derive(seed, "sensitivity samples", task)) for task in examples}
    return {task: rngs[task].permutation(len(each))[:most] for task, each in examples.items()}


@dataclass(frozen=True)
class SingleRuns:
    """Single-task models of one seed, and the training samples on which they are compared."""

    folders: Mapping[str, Path]  #: of the models, by task
    examples: Mapping[str, Examples]
    rows: Mapping[str, np.ndarray]  #: samples of each task, from `sampled`
    encoder: Callable[[], PreTrainedModel]  #: loads the pretrained one
    device: Device
    seed: int
    scratch: Path  #: folder for temporary files

    @cached_property
    def progress(self) -> Progress:
        return Progress(sum(map(len, self.rows.values())), "examples")

    @property
    def halves(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Two halves of the samples."""
        first, second = ({task: rows[start::2] for task, rows in self.rows.items()} for start in (0, 1))
        return first, second

    def under_one_encoder(self) -> MultiTask:
        """Return the pretrained encoder with the classifiers of all models."""
        classes: dict[str, Any] = {}
        states = []
        for task, folder in self.folders.items():
            alone = MultiTask.load(folder)
            classes[task] = alone.classes[task]
            states.append(alone.classifier(task).state_dict())
        model = MultiTask(self.encoder(), alone.pooling, classes)
        for head, state in zip(model.task_heads, states, strict=True):
            head.load_state_dict(state)
        return model.eval()
