"""Important attention-head pruning (IAP): every task evaluated under every mask."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch

from headspec.batching import Examples
from headspec.devices import Device
from headspec.masks import Mask
from headspec.metrics import score
from headspec.multitask import MultiTask
from headspec.progress import Progress


@torch.no_grad()
def predictions(
    model: MultiTask, examples: dict[str, Examples], masks: list[Mask], device: Device
) -> dict[str, np.ndarray]:
    """Predictions under every mask.

    Each batch is padded once and then runs under all masks.

    Returns
    -------
    dict of task: (masks, n) class indices, or scores for regression
    """
    model.to(device.name).eval()
    closed = np.stack([mask.closed for mask in masks])
    gates = 1 - torch.from_numpy(closed).float().to(device.name)  # (masks, layers, heads)
    found = {task: np.empty((len(masks), len(e)), dtype=np.float32) for task, e in examples.items()}
    progress = Progress(sum(map(len, examples.values())) * len(masks), "masked examples")
    with device.cast():  # one context, so that weights are cast once
        for task, own in examples.items():
            for rows in own.in_length_order(np.arange(len(own)), device.tokens):
                batch = own.batch(rows, device.name)
                under = []
                for gate in gates:
                    model.gates.values = gate
                    under.append(model.predictions(task, model.pool(batch)))
                    progress.advance(len(rows), task)
                found[task][:, rows] = torch.stack(under).cpu().numpy()
    model.gates.values = None
    return found


def pruning_table(
    masks: list[Mask],
    examples: dict[str, Examples],
    found: dict[str, np.ndarray],
    metrics: dict[str, list[str]],
) -> pd.DataFrame:
    """The table `pruning`: every metric of every task under every mask."""
    rows = [
        (
            mask.pruned_for, mask.order, mask.fraction, mask.draw, int(mask.closed.sum()),
            task, metric, score(metric, own.label, found[task][i]), len(own),
        )
        for i, mask in enumerate(masks)
        for task, own in examples.items()
        for metric in metrics[task]
    ]  # fmt: skip
    columns = ["pruned_for", "order", "fraction", "draw", "n_pruned", "task", "metric", "value", "n"]
    return pd.DataFrame(rows, columns=columns).astype({"draw": "Int32"})


def predictions_table(
    masks: list[Mask], examples: dict[str, Examples], found: dict[str, np.ndarray], fraction: float
) -> pd.DataFrame:
    """The table `predictions`: without pruning, and with each task's top heads at `fraction`."""
    frames = [
        pd.DataFrame(
            {
                "pruned_for": mask.pruned_for,
                "task": task,
                "example": own.example,
                "label": own.label,
                "prediction": found[task][i].astype(float),
            }
        )
        for i, mask in enumerate(masks)
        if mask.pruned_for == "none" or (mask.order == "top" and mask.fraction == fraction)
        for task, own in examples.items()
    ]
    return pd.concat(frames, ignore_index=True)
