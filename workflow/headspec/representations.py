"""Vectors of texts: what models make of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
import pyarrow as pa
import torch

from headspec.batching import Examples, in_order
from headspec.devices import Device
from headspec.finite import require
from headspec.multitask import MultiTask
from headspec.progress import Progress
from headspec.tables import INT, TEXT, Schema

# example: row of the probe or the stimuli; null for a mean over texts
REPRESENTATIONS = Schema({"task": TEXT, "example": INT, "vector": pa.list_(pa.float32())}, keys=2)


@torch.no_grad()
def vectors(
    model: MultiTask,
    task: str,
    examples: Examples,
    rows: np.ndarray,
    device: Device,
    progress: Progress | None = None,
) -> np.ndarray:
    """The model's vectors of texts, as its classifiers see them, without dropout.

    Parameters
    ----------
    task : whose texts, or whose model, it is

    Returns
    -------
    (len(rows), hidden) float32, in the order of `rows`

    Raises
    ------
    NumericalError
        One of them is not finite.
    """
    model.to(device.name).eval()
    done: list[np.ndarray] = []
    found: list[torch.Tensor] = []  # on the device, which is waited for but once
    with device.cast():
        for part in (batches := examples.in_length_order(rows, device)):
            try:
                pooled = model.pool(examples.batch(part, device.name))
            except RuntimeError as error:
                batches.halve(error)
                continue
            done.append(part)
            found.append(pooled.float())
            if progress:
                progress.advance(len(part))
    values = in_order(rows, done, torch.cat(found).cpu().numpy())
    require(values, f"vectors of texts, task '{task}'", examples.example[rows], device)
    return values


def of_tasks(
    models: Iterator[tuple[str, MultiTask]], n_models: int, texts: Examples, device: Device
) -> pd.DataFrame:
    """What the model of each task makes of the same texts.

    Parameters
    ----------
    models : (task, its model), loaded one at a time; `n_models` of them
    texts : in the order of their column `example`

    Returns
    -------
    table 'representations'
    """
    progress = Progress(n_models * len(texts), "texts")
    rows = np.arange(len(texts))
    frames = []
    for task, model in models:
        found = vectors(model, task, texts, rows, device, progress)
        frames.append(pd.DataFrame({"task": task, "example": texts.example, "vector": list(found)}))
    return pd.concat(frames, ignore_index=True)


def features(model: MultiTask, task: str, examples: Examples, device: Device) -> pd.DataFrame:
    """Vectors of a task's examples by an encoder that stays as it is, for classifiers to learn from.

    Returns
    -------
    table 'representations'
    """
    progress, rows = Progress(len(examples), "examples"), np.arange(len(examples))
    found = vectors(model, task, examples, rows, device, progress)
    return pd.DataFrame({"task": task, "example": examples.example, "vector": list(found)})


def mean_of_tasks(
    model: MultiTask, examples: Mapping[str, Examples], rows: Mapping[str, np.ndarray], device: Device
) -> pd.DataFrame:
    """Mean vector of each task's texts: TextEmb, by a pretrained model with mean pooling (Vu et al. 2020).

    Parameters
    ----------
    rows : task: the rows of its `examples` that the mean is over

    Returns
    -------
    table 'representations', without `example`
    """
    progress = Progress(sum(map(len, rows.values())), "texts")
    each = (vectors(model, task, examples[task], own, device, progress) for task, own in rows.items())
    means = [own.mean(axis=0, dtype=float) for own in each]
    return pd.DataFrame({"task": list(rows), "example": None, "vector": means}).astype({"example": "Int32"})
