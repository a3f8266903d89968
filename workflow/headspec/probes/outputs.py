"""Probes of head outputs: a unit has the label of the nearest class centroid.

The output of a head for a unit is the mean over its words of the head's context vectors, W_O's input. A
centroid is the mean of the training units with a label; the nearest one has the largest cosine (He and Choi
2021, section 5).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pandas as pd
import torch
from torch.nn import functional as F

from headspec.models.batching import put
from headspec.models.devices import Device
from headspec.models.gates import HeadGates
from headspec.models.multitask import MultiTask
from headspec.probes.cases import Cases, counted
from headspec.progress import Progress


@contextmanager
def contexts(gates: HeadGates) -> Iterator[list[torch.Tensor]]:
    """The inputs of W_O of every layer, (batch, tokens, heads * size), of the passes made inside."""
    found: list[torch.Tensor] = []
    hooks = [
        projection.register_forward_pre_hook(lambda _, args: found.append(args[0]))
        for projection in gates.projections
    ]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


@torch.no_grad()
def probe(model: MultiTask, train: Cases, test: Cases, labels: list[str], device: Device) -> pd.DataFrame:
    """Table 'probed' of the units of `test`, with centroids of those of `train`."""
    model.to(device.name).eval()
    progress = Progress(len(train.examples) + len(test.examples), "sentences")
    sums: dict[str, torch.Tensor] = {}
    for units, vectors in _vectors(model, train, device, progress):
        for name, targets in {"label": train.label, "control": train.control}.items():
            one_hot = F.one_hot(put(targets[units], device.name), len(labels)).to(vectors.dtype)
            summed = torch.einsum("uk,ulhs->klhs", one_hot, vectors)
            sums[name] = sums[name] + summed if name in sums else summed
    centroids = {name: F.normalize(summed, dim=-1) for name, summed in sums.items()}
    right = {
        name: np.zeros((len(test.label), *summed.shape[1:3]), dtype=bool) for name, summed in sums.items()
    }
    for units, vectors in _vectors(model, test, device, progress):
        for name, targets in {"label": test.label, "control": test.control}.items():
            cosines = torch.einsum("ulhs,klhs->ulhk", F.normalize(vectors, dim=-1), centroids[name])
            cosines = cosines.masked_fill((centroids[name] == 0).all(-1).permute(1, 2, 0), -2)  # no units
            nearest = cosines.argmax(-1) == put(targets[units], device.name)[:, None, None]
            right[name][units] = nearest.cpu().numpy()
    return counted(test, labels, right["label"], right["control"], None)


def _vectors(
    model: MultiTask, of: Cases, device: Device, progress: Progress
) -> Iterator[tuple[np.ndarray, torch.Tensor]]:
    """Units, and the outputs of all heads for them, (units, layers, heads, size), batch by batch."""
    starts = np.searchsorted(of.row, np.arange(len(of.examples) + 1))
    for chunk in (batches := of.examples.in_length_order(np.arange(len(of.examples)), device)):
        batch = of.examples.batch(chunk, device.name)
        assert batch.words is not None
        units = np.concatenate([np.arange(starts[row], starts[row + 1]) for row in chunk])
        place = np.repeat(np.arange(len(chunk)), starts[chunk + 1] - starts[chunk])
        shares = np.zeros((len(units), batch.words.shape[1]), dtype=np.float32)
        for i, unit in enumerate(units):
            first, last = of.first[unit], of.last[unit]
            shares[i, first : last + 1] = 1 / (last + 1 - first)
        try:
            with contexts(model.gates) as found:
                model.pool(batch)
            tokens = torch.stack(found).float()  # (layers, batch, tokens, heads * size)
            words = batch.words @ tokens
            vectors = torch.einsum(
                "uw,luwd->uld", put(shares, device.name), words[:, put(place, device.name)]
            )
        except RuntimeError as error:
            batches.halve(error)
            continue
        yield units, vectors.unflatten(-1, (model.gates.heads, -1))
        progress.advance(len(chunk))
