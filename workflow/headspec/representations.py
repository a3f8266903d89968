"""Vectors of texts: what models make of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
import pyarrow as pa
import torch

from headspec.batching import Examples
from headspec.devices import Device
from headspec.multitask import MultiTask
from headspec.progress import Progress
from headspec.tables import INT, TEXT, Schema

# example: row of the probe or the stimuli; null for a mean over texts
REPRESENTATIONS = Schema({"task": TEXT, "example": INT, "vector": pa.list_(pa.float32())}, keys=2)


@torch.no_grad()
def vectors(
    model: MultiTask, examples: Examples, rows: np.ndarray, device: Device, progress: Progress
) -> np.ndarray:
    """The model's vectors of texts, as its classifiers see them, without dropout.

    Returns
    -------
    (len(rows), hidden) float32, in the order of `rows`
    """
    model.to(device.name).eval()
    found = np.empty((len(rows), model.encoder.config.hidden_size), dtype=np.float32)
    place = {row: i for i, row in enumerate(rows)}
    with device.cast():
        for part in (batches := examples.in_length_order(rows, device.tokens)):
            try:
                pooled = model.pool(examples.batch(part, device.name))
            except RuntimeError as error:
                batches.halve(error)
                continue
            found[[place[row] for row in part]] = pooled.float().cpu().numpy()
            progress.advance(len(part))
    return found


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
        found = vectors(model, texts, rows, device, progress)
        frames.append(pd.DataFrame({"task": task, "example": texts.example, "vector": list(found)}))
    return pd.concat(frames, ignore_index=True)


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
    means = [vectors(model, examples[t], rows[t], device, progress).mean(axis=0, dtype=float) for t in rows]
    return pd.DataFrame({"task": list(rows), "example": None, "vector": means}).astype({"example": "Int32"})
