"""Gradient affinity: the share of a target's loss that one step on a source's loss removes.

After Fifty et al. 2021 (TAG). Only `parameters` move, which tasks would share.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from headspec.models import finite
from headspec.models.batching import Batch, Examples
from headspec.models.devices import Device
from headspec.models.multitask import MultiTask
from headspec.models.saved import read_encoder
from headspec.progress import Progress
from headspec.similarity.sensitivity import gradient, losses, parameters
from headspec.similarity.single_runs import SingleRuns

#: length of a step relative to the weights: losses change almost linearly, and by more than float32 rounds
STEP = 1e-5

Rows = Mapping[str, np.ndarray]


def lookahead(
    model: MultiTask, targets: Sequence[str], examples: Mapping[str, Examples], fitted: Rows, judged: Rows,
    device: Device, step: float = STEP,
) -> NDArray[np.float64]:  # fmt: skip
    """Share of each target's loss on `judged` rows that a step on each task's `fitted` rows removes.

    Losses are judged on other examples than made the step, which would favour tasks that share texts. Steps
    of all tasks have one length, as training scales gradients too (Adam), and losses of scores have units.

    Returns
    -------
    (tasks, targets); nan where a target has no loss
    """
    progress = Progress(sum(map(len, fitted.values())), "examples")
    model.to(device.name)

    def mean_losses() -> list[float]:
        return [_mean_loss(model, task, examples[task], judged[task], device) for task in targets]

    before, after = mean_losses(), []
    start = parameters_to_vector(parameters(model)).detach()
    for source in model.classes:
        along = torch.from_numpy(gradient(model, source, examples[source], fitted[source], device, progress))
        length = step * start.norm().cpu() / along.norm().clamp(min=1e-30)  # of a gradient of 0, none
        vector_to_parameters(start - (length * along).to(start.device), parameters(model))
        after.append(mean_losses())
        vector_to_parameters(start.clone(), parameters(model))
    left = np.divide(
        after, before, out=np.full((len(after), len(before)), np.nan), where=np.array(before) > 0
    )
    return 1 - left


def affinity(runs: SingleRuns) -> NDArray[np.float64]:
    """`lookahead` at the pretrained encoder, (tasks, tasks)."""
    return lookahead(runs.under_one_encoder(), [*runs.folders], runs.examples, *runs.halves, runs.device)


def affinity_single(runs: SingleRuns) -> NDArray[np.float64]:
    """`lookahead`, each target at the encoder of its own model, (tasks, tasks)."""
    columns, model = [], runs.under_one_encoder()
    for target, folder in runs.folders.items():
        model.encoder.load_state_dict(read_encoder(folder)[0].state_dict())
        columns.append(lookahead(model, [target], runs.examples, *runs.halves, runs.device))
    return np.hstack(columns)


def _mean_loss(model: MultiTask, task: str, examples: Examples, rows: np.ndarray, device: Device) -> float:
    """Mean loss in float32, because a step changes it by less than bfloat16 rounds."""
    exact = replace(device, autocast=None)

    def compute(batch: Batch) -> torch.Tensor:
        return losses(model, task, batch, exact)

    with torch.no_grad():
        values = examples.values(compute, rows, exact)
    finite.require(values, f"losses of task '{task}'", rows, exact)
    return float(values.mean(dtype=float))
