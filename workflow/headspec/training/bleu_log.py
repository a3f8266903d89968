"""BLEU of a few validation sentences during the training of translators, for the log.

It changes no result: the model, its mode and the random state are restored afterwards.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from headspec import tables
from headspec.errors import HeadspecError
from headspec.models.attention.interface import evaluating
from headspec.models.batching import Batch, Examples
from headspec.models.devices import Device
from headspec.models.multitask import MultiTask
from headspec.progress import log
from headspec.tasks.parts import Classes
from headspec.tasks.tokens import encoding
from headspec.training import parallel
from headspec.training.schedule import Step
from headspec.training.updates import random_state, set_random_state

#: sentences per task (fewer if a task has fewer, or `SHARE` allows fewer), and the minimum
SENTENCES, FEWEST = 100, 10
#: measurements in a training, unless `SHARE` allows only fewer
LOOKS = 8
#: largest cost of all measurements, relative to training
SHARE = 0.03
#: cost of a training step in forward passes: one forward, two backward
TRAINED = 3


def validation_beside(paths: Sequence[str], classes: Mapping[str, Classes]) -> dict[str, Examples]:
    """Return the validation examples of tasks that predict texts, from beside the training tables `paths`.

    They are not inputs of the job, so that changing them retrains nothing. Unreadable tables are left out.
    """
    examples = {}
    for (task, task_classes), path in zip(classes.items(), paths, strict=True):
        validation = Path(path).with_name("validation.parquet")
        if encoding(task_classes).writes and validation.exists():
            try:
                examples[task] = Examples.for_task(tables.read(validation), task_classes)
            except HeadspecError as error:
                log.warning("training without BLEU of task '%s': %s", task, error)
    return examples


class BleuLog:
    """BLEU after evenly spaced training steps, including the last.

    `after` has the numbers of these steps, `rows` the rows of each task that are translated. A sentence costs
    at most as many decoder steps as a text may have tokens; a training example costs three times its target's
    tokens. Measurements and sentences are limited so that their total stays below `SHARE` of training; if not
    even one measurement of `FEWEST` sentences does, there is none.
    """

    def __init__(
        self,
        model: MultiTask,
        examples: Mapping[str, Examples],
        steps: Sequence[Step],
        trained: Mapping[str, Examples],
        device: Device,
    ) -> None:
        self.model, self.examples, self.device = model, examples, device
        self.rows: dict[str, np.ndarray] = {}
        self.after: set[int] = set()
        lengths = {task: trained[task].gold.lengths for task in examples}
        learnt = sum(lengths[step.task][step.rows].sum() for step in steps if step.task in lengths)
        longest = sum(model.classifier(task).longest for task in examples)
        most = int(SHARE * TRAINED * learnt / longest) if longest else 0  # sentences per task in all
        if (sentences := min(SENTENCES, most, *map(len, examples.values()))) >= FEWEST:
            looks = min(LOOKS, most // sentences, len(steps))
            self.after = {len(steps) * (look + 1) // looks - 1 for look in range(looks)}
            self.rows = {
                task: np.linspace(0, len(task_examples) - 1, sentences).astype(int)
                for task, task_examples in examples.items()
            }

    def measure(self) -> str:
        """Return ``BLEU: german 21.3, french 19.8``, decoded greedily; empty in processes without a log."""
        if not parallel.is_first():
            return ""
        before = random_state()
        try:
            with evaluating(self.model), torch.no_grad(), self.device.cast():
                scores = [f"{task} {100 * self._bleu(task):.1f}" for task in self.rows]
        finally:
            set_random_state(before)
        return f"BLEU: {', '.join(scores)}"

    def _bleu(self, task: str) -> float:
        def batch_values(batch: Batch) -> torch.Tensor:
            return self.model.predictions(task, self.model.pool(batch), batch.labels)

        predicted = self.examples[task].values(batch_values, self.rows[task], self.device)
        if not np.isfinite(predicted).all():
            return np.nan
        return self.model.classifier(task).bleu(predicted)
