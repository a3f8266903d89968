"""Magnitudes of heads as a measure of the atlas."""

import numpy as np

from headspec.models.attention.magnitudes import magnitudes
from headspec.models.batching import Examples
from headspec.models.devices import Device
from headspec.models.multitask import MultiTask


def magnitude(
    model: MultiTask, task: str, examples: Examples, rows: np.ndarray, device: Device
) -> np.ndarray:
    """Return the Frobenius norm of W_V W_O of each head, the same for every example, (n, layers, heads).

    Raises ModelError as `headspec.models.attention.magnitudes.magnitudes`.
    """
    norms = magnitudes(model.gates)
    return np.broadcast_to(norms, (len(rows), *norms.shape))
