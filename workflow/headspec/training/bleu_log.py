"""BLEU of a few validation sentences while translators are trained, for the log.

Nothing that is kept depends on it: the model, its mode and the random numbers are afterwards as before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from headspec import tables
from headspec.errors import HeadspecError
from headspec.models.batching import Batch, Examples
from headspec.models.devices import Device
from headspec.models.modes import evaluating
from headspec.models.multitask import MultiTask
from headspec.progress import log
from headspec.tasks.classes import Classes
from headspec.tasks.tokens import encoding
from headspec.training import parallel
from headspec.training.microbatches import random_state, set_random_state
from headspec.training.schedule import Step

#: sentences of each task, fewer if one has fewer or if so many are not within `SHARE`, and the fewest
SENTENCES, FEWEST = 100, 10
#: measurements in a training, fewer if so many are not within `SHARE`
LOOKS = 8
#: most operations of all measurements, as a share of training's
SHARE = 0.03
#: passes that a step of training is worth: one forward, two backward
TRAINED = 3


def validation_beside(paths: Sequence[str], classes: Mapping[str, Classes]) -> dict[str, Examples]:
    """Return the validation examples of tasks with texts as predictions, from beside the training tables.

    They are no inputs of the job, so changes of them train nothing again. Unreadable ones are left out.

    Parameters
    ----------
    paths : tables of training tokens, in the order of `classes`
    """
    found = {}
    for (task, task_classes), path in zip(classes.items(), paths, strict=True):
        validation = Path(path).with_name("validation.parquet")
        if encoding(task_classes).writes and validation.exists():
            try:
                found[task] = Examples.for_task(tables.read(validation), task_classes)
            except HeadspecError as error:
                log.warning("training without BLEU of task '%s': %s", task, error)
    return found


class BleuLog:
    """BLEU after evenly spaced steps of a training, the last of them at its end.

    A sentence takes at most as many steps of the decoder as a text may have tokens, a training example three
    times as many as its target has. Measurements and sentences are as many as keep
    the former, in sum, below `SHARE` of the latter; where not even one on `FEWEST` does, there is none.

    Parameters
    ----------
    examples : of validation; of the tasks that are measured
    steps : of the whole training
    trained : examples that it is on

    Attributes
    ----------
    rows : task: the rows that are translated, evenly spaced
    after : numbers of the steps after which they are
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
        most = int(SHARE * TRAINED * learnt / longest) if longest else 0  # sentences of a task in all
        if (sentences := min(SENTENCES, most, *map(len, examples.values()))) >= FEWEST:
            looks = min(LOOKS, most // sentences, len(steps))
            self.after = {len(steps) * (look + 1) // looks - 1 for look in range(looks)}
            self.rows = {
                task: np.linspace(0, len(task_examples) - 1, sentences).astype(int)
                for task, task_examples in examples.items()
            }

    def measure(self) -> str:
        """``BLEU: german 21.3, french 19.8``, decoded greedily; nothing in processes that write no log."""
        if not parallel.is_first():
            return ""
        before = random_state()
        try:
            with evaluating(self.model), torch.no_grad(), self.device.cast():
                found = [f"{task} {100 * self._bleu(task):.1f}" for task in self.rows]
        finally:
            set_random_state(before)
        return f"BLEU: {', '.join(found)}"

    def _bleu(self, task: str) -> float:
        def batch_values(batch: Batch) -> torch.Tensor:
            return self.model.predictions(task, self.model.pool(batch), batch.labels)

        predicted = self.examples[task].values(batch_values, self.rows[task], self.device)
        if not np.isfinite(predicted).all():
            return np.nan
        return self.model.classifier(task).bleu(predicted)
