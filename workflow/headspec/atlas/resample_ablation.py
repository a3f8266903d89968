"""Ablation by resampling: a head's output is replaced by its output for another example."""

from functools import partial

import numpy as np
import torch

from headspec.attention import spread
from headspec.heads.ablations import aligned, each_replaced
from headspec.models.batching import Batch, Examples
from headspec.models.devices import Device
from headspec.models.finite import require
from headspec.models.internals.resuming import ablating
from headspec.models.multitask import MultiTask


@torch.no_grad()
def measure(model: MultiTask, task: str, examples: Examples, rows: np.ndarray, device: Device) -> np.ndarray:
    """Return the rise of the loss when a head's vectors come from another example, (n, layers, heads).

    Unlike zeros and means, these are context vectors that the head does produce (Chan et al. 2022). The other
    example is half of `rows` further on, in their random order. Its tokens are counted from the end if the
    last one is the text's vector, else from the beginning, and repeat where its text is shorter. Raises
    EncoderError if the encoder's passes cannot be resumed, NumericalError if a loss is not finite.
    """
    model.to(device.name).eval()
    other = np.zeros(len(examples), dtype=int)
    other[rows] = np.roll(rows, len(rows) // 2)

    def batch_values(batch: Batch) -> torch.Tensor:
        donors = examples.batch(other[batch.rows], device.name)
        passes.record(partial(model.read, donors))
        contexts, at_end = passes.contexts, model.pooling == "last"
        layers = zip(model.attending(batch), model.attending(donors), strict=True)
        places = [aligned(own, others, at_end) for own, others in layers]

        def run() -> torch.Tensor:
            return model.losses(task, model.pool(batch), batch.labels)

        def instead(layer: int) -> torch.Tensor:
            return contexts[layer].take_along_dim(places[layer][..., None, None], 1)

        losses = [passes.record(run), *each_replaced(passes, run, model.gates.exists, instead)]
        return torch.stack(losses[1:], dim=1) - losses[0][:, None]

    with ablating(model, task) as passes, device.cast():
        values = examples.values(batch_values, rows, device, None, task)
    require(values, f"losses of task '{task}' with heads resampled", examples.example[rows], device)
    return spread(values, model.gates.exists)
