"""Important attention-head pruning (IAP): every task evaluated under every mask."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch

from headspec.heads.masks import Mask, window
from headspec.models.batching import Batch, Examples
from headspec.models.devices import Device
from headspec.models.finite import require
from headspec.models.multitask import MultiTask
from headspec.progress import Progress
from headspec.seeds import derive
from headspec.statistics.metrics import score
from headspec.tables import FLOAT, INT, TEXT, Schema

PRUNING = Schema(
    {"pruned_for": TEXT, "order": TEXT, "fraction": FLOAT, "draw": INT, "n_pruned": INT, "task": TEXT,
     "metric": TEXT, "value": FLOAT, "n": INT},
    keys=7,
)  # fmt: skip
"""Table `pruning`: a row for each mask, evaluated task and metric.
runs/{model}/{mixture}/{method}/seed{seed}/pruning.parquet

pruned_for: whose heads are pruned: a task, `none`, `random` or `random_by_layer`
"""
PREDICTIONS = Schema(
    {"pruned_for": TEXT, "fraction": FLOAT, "task": TEXT, "example": INT, "label": FLOAT,
     "prediction": FLOAT},
    keys=4,
)  # fmt: skip
"""Table `predictions`: a row for each mask of top heads and validation example.
runs/{model}/{mixture}/{method}/seed{seed}/predictions.parquet

pruned_for: task whose top heads are pruned, or `none`
"""
EVALUATION = Schema({"task": TEXT, "example": INT, "label": FLOAT, "prediction": FLOAT}, keys=2)
"""Table `evaluation`: a row for each validation example.
runs/{model}/{mixture}/{method}/seed{seed}/evaluation.parquet,
runs/{model}/{mixture}/{method}/seed{seed}/gates/{way}/{sets}/{kept}/evaluation.parquet
"""


@torch.no_grad()
def predictions(
    model: MultiTask,
    examples: dict[str, Examples],
    masks: list[Mask],
    device: Device,
    draw_examples: int | None = None,
    seed: int = 0,
) -> dict[str, np.ma.MaskedArray]:
    """Predictions under every mask.

    Each batch is padded once and runs under all masks that are evaluated on the same examples.

    Parameters
    ----------
    draw_examples : examples per task on which a random mask is evaluated (`masks.window`); None for all
    seed : of the run; determines these examples

    Returns
    -------
    dict of task: (masks, n) class indices, or scores for regression; masked where not evaluated

    Raises
    ------
    NumericalError
        A prediction is not finite.
    """
    model.to(device.name).eval()
    predicted = {
        task: np.ma.masked_all((len(masks), len(e)), dtype=np.float64) for task, e in examples.items()
    }
    work = []  # (task, rows, mask indices)
    for task, of_task in examples.items():
        groups: dict[tuple, list[int]] = {}
        for i, mask in enumerate(masks):
            rng = np.random.default_rng(derive(seed, "draw examples", task))
            rows = window(mask.draw or 0, None if mask.draw is None else draw_examples, len(of_task), rng)
            groups.setdefault(tuple(rows), []).append(i)
        work += [(task, np.array(rows), indices) for rows, indices in groups.items()]
    progress = Progress(sum(len(rows) * len(indices) for _, rows, indices in work), "masked examples")
    with device.cast():  # one context, so that weights are cast once
        for task, rows, indices in work:
            selected = [masks[i] for i in indices]
            values = under_masks(model, task, examples[task], rows, selected, device, progress)
            predicted[task][np.ix_(np.array(indices), rows)] = values
    return predicted


@torch.no_grad()
def under_masks(
    model: MultiTask,
    task: str,
    examples: Examples,
    rows: np.ndarray,
    masks: list[Mask],
    device: Device,
    progress: Progress | None = None,
) -> np.ndarray:
    """Predictions for `rows` under each of `masks`, (masks, rows); a batch is padded once for all masks.

    What all prompts of a task begin with is read once for a batch and mask, by decoders that can. The model
    is on the device, in evaluation; the caller casts. Raises as `predictions`.
    """
    closed = np.stack([mask.closed for mask in masks])
    gates = 1 - torch.from_numpy(closed).float().to(device.name)  # (masks, layers, heads)

    def of_batch(batch: Batch) -> torch.Tensor:
        by_gates = []
        for values in gates:
            model.gates.values = values
            by_gates.append(model.predictions(task, model.pool(batch), batch.labels))
        return torch.stack(by_gates, dim=1)

    prefix = examples.prefix if examples.prefix and model.shares_prefix else 0
    held = device.sharing(model.beams.get(task, 1))
    predicted = examples.values(of_batch, rows, held, progress, task, len(gates), prefix).T
    model.gates.values = None
    for mask, of_mask in zip(masks, predicted, strict=True):
        pruned = f" with heads pruned for {mask.pruned_for}" if mask.closed.any() else ""
        require(of_mask, f"predictions of task '{task}'{pruned}", examples.example[rows], device)
    return predicted


def pruning_table(
    masks: list[Mask],
    examples: dict[str, Examples],
    predicted: dict[str, np.ma.MaskedArray],
    metrics: dict[str, list[str]],
) -> pd.DataFrame:
    """The table `pruning`: every metric of every task under every mask."""
    rows = []
    for i, mask in enumerate(masks):
        for task, of_task in examples.items():
            evaluated = ~np.ma.getmaskarray(predicted[task][i])
            label, prediction = of_task.label[evaluated], predicted[task][i].compressed()
            for metric in metrics[task]:
                value = score(metric, label, prediction)
                rows.append(
                    (mask.pruned_for, mask.order, mask.fraction, mask.draw, int(mask.closed.sum()))
                    + (task, metric, value, len(label))
                )
    columns = ["pruned_for", "order", "fraction", "draw", "n_pruned", "task", "metric", "value", "n"]
    return pd.DataFrame(rows, columns=columns).astype({"draw": "Int32"})


def predictions_table(
    masks: list[Mask], examples: dict[str, Examples], predicted: dict[str, np.ma.MaskedArray]
) -> pd.DataFrame:
    """The table `predictions`: without pruning, and with each task's top heads at every fraction."""
    frames = [
        pd.DataFrame(
            {
                "pruned_for": mask.pruned_for,
                "fraction": mask.fraction,
                "task": task,
                "example": of_task.example,
                "label": of_task.label,
                "prediction": predicted[task][i].astype(float),
            }
        )
        for i, mask in enumerate(masks)
        if mask.pruned_for == "none" or mask.order == "top"
        for task, of_task in examples.items()
    ]
    return pd.concat(frames, ignore_index=True)


def evaluation_table(model: MultiTask, examples: dict[str, Examples], device: Device) -> pd.DataFrame:
    """The table `evaluation`: every task's predictions without pruning."""
    none = Mask("none", None, 0.0, None, np.zeros((model.gates.layers, model.gates.heads), dtype=bool))
    predicted = predictions(model, examples, [none], device)
    return predictions_table([none], examples, predicted).drop(columns=["pruned_for", "fraction"])
