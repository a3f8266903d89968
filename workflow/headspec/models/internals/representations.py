"""Vectors of texts."""

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd
import pyarrow as pa
import torch

from headspec.models.batching import Examples
from headspec.models.devices import Device
from headspec.models.finite import require
from headspec.models.multitask import MultiTask
from headspec.progress import Progress
from headspec.tables import INT, TEXT, Schema

REPRESENTATIONS = Schema({"task": TEXT, "example": INT, "vector": pa.list_(pa.float32())}, keys=2)
"""Table `representations`: a row for each text.
features/{model}/{task}.parquet, similarity/{model}/text.parquet,
similarity/{model}/seed{seed}/sentences.parquet, similarity/{model}/seed{seed}/stimuli.parquet

task: task whose text it is, or whose model made the vector
example: example, sentence or stimulus; null for a mean over texts
vector: as wide as the model
"""


@torch.no_grad()
def vectors(
    model: MultiTask,
    task: str,
    examples: Examples,
    rows: np.ndarray,
    device: Device,
    progress: Progress | None = None,
) -> np.ndarray:
    """Return the text vectors that classifiers receive, (n, hidden) float32; NumericalError if not finite."""
    model.to(device.name).eval()
    with device.cast():
        values = examples.values(lambda batch: model.vectors(batch).float(), rows, device, progress)
    require(values, f"vectors of texts, task '{task}'", examples.example[rows], device)
    return values


def representations(
    models: Iterable[tuple[str, MultiTask]], texts: Examples, device: Device, n_models: int = 1
) -> pd.DataFrame:
    """Return a table 'representations': vectors of the same texts by the model of each task in turn."""
    progress, rows = Progress(n_models * len(texts), "texts"), np.arange(len(texts))
    frames = []
    for task, model in models:
        values = vectors(model, task, texts, rows, device, progress)
        frames.append(pd.DataFrame({"task": task, "example": texts.example, "vector": list(values)}))
    return pd.concat(frames, ignore_index=True)


def task_means(
    model: MultiTask, examples: Mapping[str, Examples], rows: Mapping[str, np.ndarray], device: Device
) -> pd.DataFrame:
    """Return a table 'representations' of mean vectors of each task's `rows` (TextEmb of Vu et al. 2020)."""
    progress = Progress(sum(map(len, rows.values())), "texts")
    by_task = (vectors(model, task, examples[task], some, device, progress) for task, some in rows.items())
    means = [values.mean(axis=0, dtype=float) for values in by_task]
    return pd.DataFrame({"task": list(rows), "example": None, "vector": means}).astype({"example": "Int32"})
