"""Important attention-head pruning (IAP): every task evaluated under every mask."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch

from headspec.batching import Examples, in_order
from headspec.devices import Device
from headspec.finite import require
from headspec.masks import Mask, window
from headspec.metrics import score
from headspec.multitask import MultiTask
from headspec.progress import Progress
from headspec.seeds import derive
from headspec.tables import FLOAT, INT, TEXT, Schema

PRUNING = Schema(
    {"pruned_for": TEXT, "order": TEXT, "fraction": FLOAT, "draw": INT, "n_pruned": INT, "task": TEXT,
     "metric": TEXT, "value": FLOAT, "n": INT},
    keys=7,
)  # fmt: skip
# of top heads; pruned_for "none": fraction 0; label, prediction: class index or score
PREDICTIONS = Schema(
    {"pruned_for": TEXT, "fraction": FLOAT, "task": TEXT, "example": INT, "label": FLOAT,
     "prediction": FLOAT},
    keys=4,
)  # fmt: skip
# of a whole model, without pruning; label, prediction: class index or score
EVALUATION = Schema({"task": TEXT, "example": INT, "label": FLOAT, "prediction": FLOAT}, keys=2)


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

    Each batch is padded once and runs under all masks that evaluate the same examples.

    Parameters
    ----------
    draw_examples, seed : a random mask is evaluated on this many examples per task (`masks.window`)

    Returns
    -------
    dict of task: (masks, n) class indices, or scores for regression; masked where not evaluated

    Raises
    ------
    NumericalError
        The model gives no finite numbers.
    """
    model.to(device.name).eval()
    closed = np.stack([mask.closed for mask in masks])
    gates = 1 - torch.from_numpy(closed).float().to(device.name)  # (masks, layers, heads)
    found = {task: np.ma.masked_all((len(masks), len(e)), dtype=np.float32) for task, e in examples.items()}
    work = []  # (task, rows, masks)
    for task, own in examples.items():
        groups: dict[tuple, list[int]] = {}
        for i, mask in enumerate(masks):
            rng = np.random.default_rng(derive(seed, "draw examples", task))
            rows = window(mask.draw or 0, None if mask.draw is None else draw_examples, len(own), rng)
            groups.setdefault(tuple(rows), []).append(i)
        work += [(task, np.array(rows), which) for rows, which in groups.items()]
    progress = Progress(sum(len(rows) * len(which) for _, rows, which in work), "masked examples")
    with device.cast():  # one context, so that weights are cast once
        for task, rows, which in work:
            values = _under(model, task, examples[task], rows, [gates[i] for i in which], device, progress)
            for i, own in zip(which, values, strict=True):
                pruned = f" with heads pruned for {masks[i].pruned_for}" if closed[i].any() else ""
                require(own, f"predictions of task '{task}'{pruned}", examples[task].example[rows], device)
            found[task][np.ix_(np.array(which), rows)] = values
    return found


def _under(
    model: MultiTask,
    task: str,
    examples: Examples,
    rows: np.ndarray,
    gates: list[torch.Tensor],
    device: Device,
    progress: Progress,
) -> np.ndarray:
    """Predictions for `rows` under each of `gates`, (gates, rows)."""
    done: list[np.ndarray] = []
    found: list[torch.Tensor] = []  # on the device, which is waited for but once
    for part in (batches := examples.in_length_order(rows, device)):
        batch = examples.batch(part, device.name)
        under = []
        try:
            for values in gates:
                model.gates.values = values
                under.append(model.predictions(task, model.pool(batch)))
        except RuntimeError as error:
            batches.halve(error)
            continue
        done.append(part)
        found.append(torch.stack(under, dim=1))
        progress.advance(len(part) * len(gates), task)
    model.gates.values = None
    return in_order(rows, done, torch.cat(found).cpu().numpy()).T


def pruning_table(
    masks: list[Mask],
    examples: dict[str, Examples],
    found: dict[str, np.ma.MaskedArray],
    metrics: dict[str, list[str]],
) -> pd.DataFrame:
    """The table `pruning`: every metric of every task under every mask."""
    rows = []
    for i, mask in enumerate(masks):
        for task, own in examples.items():
            seen = ~np.ma.getmaskarray(found[task][i])
            label, prediction = own.label[seen], found[task][i].compressed()
            for metric in metrics[task]:
                value = score(metric, label, prediction)
                rows.append(
                    (mask.pruned_for, mask.order, mask.fraction, mask.draw, int(mask.closed.sum()))
                    + (task, metric, value, len(label))
                )
    columns = ["pruned_for", "order", "fraction", "draw", "n_pruned", "task", "metric", "value", "n"]
    return pd.DataFrame(rows, columns=columns).astype({"draw": "Int32"})


def predictions_table(
    masks: list[Mask], examples: dict[str, Examples], found: dict[str, np.ma.MaskedArray]
) -> pd.DataFrame:
    """The table `predictions`: without pruning, and with each task's top heads at every fraction."""
    frames = [
        pd.DataFrame(
            {
                "pruned_for": mask.pruned_for,
                "fraction": mask.fraction,
                "task": task,
                "example": own.example,
                "label": own.label,
                "prediction": found[task][i].astype(float),
            }
        )
        for i, mask in enumerate(masks)
        if mask.pruned_for == "none" or mask.order == "top"
        for task, own in examples.items()
    ]
    return pd.concat(frames, ignore_index=True)


def evaluation_table(model: MultiTask, examples: dict[str, Examples], device: Device) -> pd.DataFrame:
    """The table `evaluation`: every task's predictions without pruning."""
    none = Mask("none", None, 0.0, None, np.zeros((model.gates.layers, model.gates.heads), dtype=bool))
    found = predictions(model, examples, [none], device)
    return predictions_table([none], examples, found).drop(columns=["pruned_for", "fraction"])
