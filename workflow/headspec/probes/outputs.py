"""Probes of head outputs: a unit has the label of the nearest class centroid.

The output of a head for a unit is the mean over its words of the head's context vectors, W_O's input. A
centroid is the mean of the training units with a label; the nearest has the largest cosine (He and Choi 2021,
section 5).
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch
from torch.nn import functional as F

from headspec.models.batching import Batch, put
from headspec.models.devices import Device
from headspec.models.multitask import MultiTask
from headspec.probes.cases import Cases, counted
from headspec.progress import Progress


@torch.no_grad()
def probe(model: MultiTask, train: Cases, test: Cases, labels: list[str], device: Device) -> pd.DataFrame:
    """Return the table 'probed' of the units of `test`, with centroids from those of `train`."""
    model.to(device.name).eval()
    progress = Progress(len(train.examples) + len(test.examples), "sentences")
    # (1 + labellings, units) each
    targets = [np.stack([cases.label, *cases.control]) for cases in (train, test)]
    sums: torch.Tensor | None = None  # (1 + labellings, labels, heads, size)
    for units, vectors in _vectors(model, train, device, progress):
        one_hot = F.one_hot(put(targets[0][:, units], device.name), len(labels)).to(vectors.dtype)
        summed = torch.einsum("tuk,uhs->tkhs", one_hot, vectors)
        sums = summed if sums is None else sums + summed
    assert sums is not None
    centroids, empty = F.normalize(sums, dim=-1), (sums == 0).all(-1).mT
    right = np.zeros((*targets[1].shape, sums.shape[2]), dtype=bool)
    for units, vectors in _vectors(model, test, device, progress):
        normal = F.normalize(vectors, dim=-1)
        for labelling, label in enumerate(put(targets[1][:, units], device.name)):
            cosines = torch.einsum("uhs,khs->uhk", normal, centroids[labelling])
            nearest = cosines.masked_fill(empty[labelling], -2).argmax(-1)  # of labels without units, none
            right[labelling, units] = (nearest == label[:, None]).cpu().numpy()
    controls = list(zip(test.control, right[1:], strict=True))
    return counted(test, labels, np.nonzero(model.gates.exists), right[0], controls, None)


def _vectors(
    model: MultiTask, cases: Cases, device: Device, progress: Progress
) -> Iterator[tuple[np.ndarray, torch.Tensor]]:
    """Yield units and the outputs of all heads for them, (units, heads, size), batch by batch."""
    starts = np.searchsorted(cases.row, np.arange(len(cases.examples) + 1))
    size = max(site.size for site in model.gates.sites)

    def compute(batch: Batch) -> tuple[np.ndarray, torch.Tensor]:
        assert batch.words is not None
        rows = batch.rows
        units = np.concatenate([np.arange(starts[row], starts[row + 1]) for row in rows])
        place = np.repeat(np.arange(len(rows)), starts[rows + 1] - starts[rows])
        shares = np.zeros((len(units), batch.words.shape[1]), dtype=np.float32)
        for i, unit in enumerate(units):
            first, last = cases.first[unit], cases.last[unit]
            shares[i, first : last + 1] = 1 / (last + 1 - first)
        with model.gates.recorded() as found:
            model.pool(batch)
        padded = (F.pad(found[row], (0, size - found[row].shape[-1])).flatten(-2) for row in sorted(found))
        tokens = torch.cat([*padded], dim=-1).float()  # (batch, tokens, heads of all layers * size)
        words = (batch.words @ tokens)[put(place, device.name)]
        vectors = torch.einsum("uw,uwd->ud", put(shares, device.name), words)
        return units, vectors.unflatten(-1, (int(model.gates.exists.sum()), -1))

    for batch, found in cases.examples.in_batches(compute, np.arange(len(cases.examples)), device):
        yield found
        progress.advance(len(batch.rows))
