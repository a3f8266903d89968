"""Effects of heads that are closed together, as a measure of the atlas."""

import numpy as np
import torch

from headspec.head_arrays import spread
from headspec.heads.knockouts import joint
from headspec.models.batching import Batch, Examples
from headspec.models.devices import Device, require_finite
from headspec.models.multitask import MultiTask
from headspec.progress import Progress
from headspec.seeds import derive

#: minimum number of passes, to estimate their variance
FEWEST = 8


@torch.no_grad()
def knockouts(
    model: MultiTask, task: str, examples: Examples, rows: np.ndarray, device: Device
) -> np.ndarray:
    """Return how much a head's closing raises the loss, or lowers the score of a written answer.

    Effects, (n, layers, heads), are estimated by ridge regressions on as many passes as there are heads (at
    least `FEWEST`), each without several random heads (Bair et al. 2026). Even and odd rows have separate
    regressions, so that one half can rank for the other. Raises NumericalError if a loss or score is not
    finite.
    """
    model.to(device.name).eval()
    exists = model.gates.exists
    passes = max(FEWEST, int(exists.sum()))
    closed = joint.drawn(exists, passes, np.random.default_rng(derive(0, "knockouts", task)))
    sets = [exists & False, *closed]
    head, progress = model.classifier(task), Progress(len(rows) * len(sets), "knocked-out examples")

    def batch_values(batch: Batch) -> torch.Tensor:
        costs = []
        for heads in sets:
            with model.gates.closed(heads):
                costs.append(head.costs(model, batch))
        return torch.stack(costs, dim=1)  # (batch, 1 + passes)

    with device.cast():
        values = examples.values(batch_values, rows, device, progress, task, len(sets)).T.astype(float)
    head.settle(task)
    require_finite(values.T, f"values of task '{task}' in knockouts", examples.example[rows], device)
    effects = np.empty((len(rows), int(exists.sum())))
    for half in {*(np.arange(len(rows)) % 2).tolist()}:
        own = values[:, half::2]
        effects[half::2], _ = joint.fitted(closed[:, exists], own[1:] - own[0])
    return spread(effects, exists)
