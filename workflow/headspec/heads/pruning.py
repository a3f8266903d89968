"""Important attention-head pruning (IAP): every task is evaluated under every mask."""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from headspec.config.values import ZERO
from headspec.heads.closing import Closing, closing
from headspec.heads.masks import Mask, draw_rows
from headspec.models.batching import Batch, Examples
from headspec.models.devices import Device, require_finite
from headspec.models.multitask import MultiTask
from headspec.progress import Progress
from headspec.seeds import derive
from headspec.tables import FLOAT, INT, PROBABILITIES, PROBABILITY_LIST, TEXT, Schema
from headspec.tasks.metrics import score

PRUNING = Schema(
    {"pruned_for": TEXT, "order": TEXT, "fraction": FLOAT, "draw": INT, "n_pruned": INT, "task": TEXT,
     "metric": TEXT, "value": FLOAT, "n": INT},
    keys=7,
    paths=("{run}/pruning.parquet",),
    about={
        "pruned_for": "whose heads are pruned: a task, `none`, `random` or `random_by_layer`",
    },
)  # fmt: skip
PREDICTIONS = Schema(
    {"pruned_for": TEXT, "fraction": FLOAT, "task": TEXT, "example": INT, "label": FLOAT,
     "prediction": FLOAT, PROBABILITIES: PROBABILITY_LIST},
    keys=4,
    paths=("{run}/predictions.parquet",),
    about={
        "pruned_for": "task whose top heads are pruned, or `none`",
        "probabilities": "of the classes, by index; null without classes and with `pruning.probabilities: "
            "false`; read by `tables.read(path, probabilities=True)`",
    },
)  # fmt: skip
EVALUATION = Schema(
    {"task": TEXT, "example": INT, "label": FLOAT, "prediction": FLOAT},
    keys=2,
    paths=("{run}/evaluation.parquet", "{run}/gates/{pruning_method}/{scope}/{kept}/evaluation.parquet"),
)


class MaskedPredictions(NamedTuple):
    """Predictions of rows under masks; `evaluated` returns all rows, masked where not evaluated.

    Attributes
    ----------
    values : (masks, rows) class indices or scores, or (masks, rows, values)
    probabilities : of classes, float32, (wanted masks, rows, classes); empty if there are none
    texts : (masks, rows), None for tasks that predict no texts
    """

    values: np.ndarray
    probabilities: np.ndarray
    texts: np.ndarray | None


def in_predictions(mask: Mask) -> bool:
    """Return whether the table `predictions` has rows of a mask."""
    return mask.pruned_for == "none" or mask.order == "top"


def predictions(
    model: MultiTask, examples: dict[str, Examples], masks: list[Mask], device: Device
) -> dict[str, np.ndarray]:
    """Return each task's predictions under every mask, (masks, n, ...), as in `evaluated`."""
    return {task: predicted.values for task, predicted in evaluated(model, examples, masks, device).items()}


@torch.no_grad()
def evaluated(
    model: MultiTask,
    examples: dict[str, Examples],
    masks: list[Mask],
    device: Device,
    draw_examples: int | None = None,
    seed: int = 0,
    probabilities: bool = False,
    ablation: str = ZERO,
) -> dict[str, MaskedPredictions]:
    """Return the predictions of each task under every mask.

    Each batch is padded once for all masks that are evaluated on the same examples. Raises NumericalError if
    a prediction is not finite.

    Parameters
    ----------
    draw_examples : examples per task on which a random mask is evaluated (`masks.draw_rows`); None for all
    seed : seed of the run, which determines these examples
    probabilities : whether to record class probabilities under the masks of the table `predictions`
    ablation : what takes the place of closed heads, one of `headspec.heads.ablations.ABLATIONS`
    """
    model.to(device.name).eval()
    answers: dict[str, MaskedPredictions] = {}  # by task, of all masks and examples
    work = []  # (task, rows, mask indices)
    for task, task_examples in examples.items():
        groups: dict[tuple[object, ...], list[int]] = {}
        for i, mask in enumerate(masks):
            rng = np.random.default_rng(derive(seed, "draw examples", task))
            rows = draw_rows(
                mask.draw or 0, None if mask.draw is None else draw_examples, len(task_examples), rng
            )
            groups.setdefault(tuple(rows), []).append(i)
        work += [(task, np.array(rows), indices) for rows, indices in groups.items()]
    progress = Progress(sum(len(rows) * len(indices) for _, rows, indices in work), "masked examples")
    with device.cast():  # one context, so that weights are cast once
        closings = {
            name: closing(model, name, of_task, ablation, device) for name, of_task in examples.items()
        }
        for task, rows, indices in work:
            selected = [masks[i] for i in indices]
            wanted = {i for i, mask in enumerate(selected) if probabilities and in_predictions(mask)}
            predicted = under_masks(
                model, task, examples[task], rows, selected, device, progress, wanted, closings[task]
            )
            shape, places = (len(masks), len(examples[task])), np.ix_(np.array(indices), rows)
            if task not in answers:  # masks without draws, including those of `predictions`, on all rows
                values = np.ma.masked_all((*shape, *predicted.values.shape[2:]), dtype=np.float64)
                texts = None if predicted.texts is None else np.full(shape, None, dtype=object)
                answers[task] = MaskedPredictions(values, predicted.probabilities, texts)
            every = answers[task]
            every.values[places] = predicted.values
            if every.texts is not None:
                every.texts[places] = predicted.texts
    return answers


@torch.no_grad()
def under_masks(
    model: MultiTask,
    task: str,
    examples: Examples,
    rows: np.ndarray,
    masks: list[Mask],
    device: Device,
    progress: Progress | None = None,
    wanted: Collection[int] = (),
    closing: Closing | None = None,
) -> MaskedPredictions:
    """Return predictions of `rows` under each of `masks`; a batch is padded once for all masks.

    Heads are closed by gates, or by `closing`. With gates, decoders that support it read the shared prefix of
    a task's prompts once per batch and mask. The model must be on the device and in evaluation mode, and the
    caller enters autocast. Raises NumericalError if a prediction is not finite. Class probabilities are
    returned for the masks in `wanted`.
    """
    texts = np.full((len(masks), len(examples)), None, dtype=object)
    value_shape: list[int] = []

    def batch_values(batch: Batch) -> torch.Tensor:
        by_gates, probabilities = [], []
        close = closing(batch) if closing else model.gates.closed
        for i, mask in enumerate(masks):
            with close(mask.closed):
                answers = model.answer(task, batch)
            by_gates.append(answers.values.reshape(len(batch.rows), -1))
            if i in wanted and answers.probabilities is not None:
                probabilities.append(answers.probabilities)
            if answers.texts is not None:
                texts[i, batch.rows] = answers.texts
        value_shape[:] = answers.values.shape[1:]
        return torch.cat([*by_gates, *probabilities], dim=1)  # (batch, masks * values + wanted * classes)

    head = model.classifier(task)
    shares = examples.prefix and model.shares_prefix and not (closing or head.reads_again)
    prefix, held = examples.prefix if shares else 0, device.sharing(head.beams)
    with model.gates.watched():  # once for all masks
        values = examples.values(batch_values, rows, held, progress, task, len(masks), prefix)  # (rows, ...)
    head.settle(task)
    width = len(masks) * int(np.prod(value_shape, dtype=int))
    # (masks, rows, [values])
    predicted = values[:, :width].reshape(len(rows), len(masks), *value_shape).swapaxes(0, 1)
    probabilities = values[:, width:].astype(np.float32)  # (rows, wanted * classes)
    for mask, answers in zip(masks, predicted, strict=True):
        pruned = f" with heads pruned for {mask.pruned_for}" if mask.closed.any() else ""
        require_finite(answers, f"predictions of task '{task}'{pruned}", examples.example[rows], device)
    by_mask = probabilities.reshape(len(rows), len(wanted), -1) if wanted else probabilities[:, None]
    written = texts[:, rows]
    return MaskedPredictions(predicted, by_mask.swapaxes(0, 1), None if (written == None).all() else written)  # noqa: E711


def pruning_table(
    masks: list[Mask],
    examples: dict[str, Examples],
    predicted: dict[str, np.ndarray],
    metrics: dict[str, list[str]],
) -> pd.DataFrame:
    """Return the table `pruning`: every metric of every task under every mask.

    `predicted` has each task's predictions, (masks, n) or (masks, n, values), masked where not evaluated.
    """
    rows = []
    for i, mask in enumerate(masks):
        for task, task_examples in examples.items():
            evaluated = ~np.ma.getmaskarray(predicted[task][i]).reshape(len(task_examples), -1)[:, 0]
            label, prediction = task_examples.label[evaluated], np.ma.getdata(predicted[task][i])[evaluated]
            for metric in metrics[task]:
                value = score(metric, label, prediction)
                rows.append(
                    (mask.pruned_for, mask.order, mask.fraction, mask.draw, int(mask.closed.sum()))
                    + (task, metric, value, len(label))
                )
    return pd.DataFrame(rows, columns=list(PRUNING.columns)).astype({"draw": "Int32"})


def predictions_table(
    masks: list[Mask], examples: dict[str, Examples], predicted: dict[str, MaskedPredictions]
) -> pd.DataFrame:
    """Return the table `predictions`: unpruned, and without each task's top heads at every fraction."""
    frames = []
    for place, (i, mask) in enumerate((i, mask) for i, mask in enumerate(masks) if in_predictions(mask)):
        for task, task_examples in examples.items():
            values, probabilities, texts = predicted[task]
            frame = task_examples.predicted(task, values[i], None if texts is None else texts[i])
            frame = frame.assign(pruned_for=mask.pruned_for, fraction=mask.fraction)
            frame[PROBABILITIES] = [*probabilities[place]] if probabilities.size else None
            frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def evaluation_table(model: MultiTask, examples: dict[str, Examples], device: Device) -> pd.DataFrame:
    """Return the table `evaluation`: every task's predictions without pruning."""
    none = Mask("none", None, 0.0, None, np.zeros((model.gates.layers, model.gates.heads), dtype=bool))
    table = predictions_table([none], examples, evaluated(model, examples, [none], device))
    return table.drop(columns=["pruned_for", "fraction", PROBABILITIES])
