"""Affinity of tasks by gradients: how much a source's examples improve a target.

Look-ahead, after Fifty et al. 2021 (TAG), is the share of a target's loss that one step on a source's loss
removes. Only `parameters`, which tasks would share, are changed.

Grad-TAG, after Li et al. 2024, fits a target in a linearised model. An example's loss is taken as -log p of
the right answer, so that it applies to every kind of task. The log odds of p, the margin, are approximated as
linear in the shared weights around the model, and gradients by a sketch. Fits are then logistic regressions
on sketches.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from headspec.models import devices
from headspec.models.batching import Batch, Examples
from headspec.models.devices import Device
from headspec.models.multitask import MultiTask
from headspec.models.saved import read_encoder
from headspec.progress import Progress, log
from headspec.seeds import derive
from headspec.similarity.sensitivity import SingleRuns, gradient, losses, parameters

#: length of a step relative to the weights: losses change almost linearly, but by more than rounding errors
STEP = 1e-5

Rows = Mapping[str, np.ndarray]


def lookahead(
    model: MultiTask, targets: Sequence[str], examples: Mapping[str, Examples], fitted: Rows, judged: Rows,
    device: Device, step: float = STEP,
) -> NDArray[np.float64]:  # fmt: skip
    """Return the share of each target's loss on `judged` rows removed by a step on each task's `fitted` rows.

    Losses are judged on other examples than those of the step, which would favour tasks that share texts. All
    tasks take steps of equal length, since Adam also scales gradients, and since losses of scores have units.
    On return, the model's weights are as before.

    Returns
    -------
    (tasks, targets); nan where a target has no loss
    """
    progress = Progress(sum(map(len, fitted.values())), "examples")
    model.to(device.name)

    def mean_losses() -> list[float]:
        return [_mean_loss(model, task, examples[task], judged[task], device) for task in targets]

    before, after = mean_losses(), []
    start = parameters_to_vector(parameters(model)).detach()  # (parameters,)
    for source in model.classes:
        along = torch.from_numpy(gradient(model, source, examples[source], fitted[source], device, progress))
        length = step * start.norm().cpu() / along.norm().clamp(min=1e-30)  # no step if the gradient is 0
        vector_to_parameters(start - (length * along).to(start.device), parameters(model))
        after.append(mean_losses())  # (targets,)
        vector_to_parameters(start.clone(), parameters(model))
    left: NDArray[np.float64] = np.divide(
        after, before, out=np.full((len(after), len(before)), np.nan), where=np.array(before) > 0
    )
    return 1 - left


def lookahead_affinity(runs: SingleRuns) -> NDArray[np.float64]:
    """Return `lookahead` at the pretrained encoder, (tasks, tasks), source first."""
    return lookahead(runs.under_one_encoder(), [*runs.folders], runs.examples, *runs.halves, runs.device)


def lookahead_affinity_single(runs: SingleRuns) -> NDArray[np.float64]:
    """Return `lookahead` with each target at the encoder of its own model, (tasks, tasks), source first."""
    columns, model = [], runs.under_one_encoder()
    for target, folder in runs.folders.items():
        model.encoder.load_state_dict(read_encoder(folder)[0].state_dict())
        columns.append(lookahead(model, [target], runs.examples, *runs.halves, runs.device))
    return np.hstack(columns)


def _mean_loss(model: MultiTask, task: str, examples: Examples, rows: np.ndarray, device: Device) -> float:
    """Return the mean loss of `rows` (n,), in float32, since bfloat16 cannot resolve the change by a step."""
    exact = replace(device, autocast=None)

    def compute(batch: Batch) -> torch.Tensor:
        return losses(model, task, batch, exact)

    with torch.no_grad():
        values = examples.values(compute, rows, exact)
    devices.require_finite(values, f"losses of task '{task}'", rows, exact)
    return float(values.mean(dtype=float))


#: size of a sketch; prime, so that no row or column of a matrix falls into only few entries
ENTRIES = 4093
#: lower bound on the loss in margins, whose gradients diverge as the loss approaches 0
LEAST = 1e-2
#: candidate penalties; the one with which single tasks are fitted best is used
PENALTIES = np.logspace(-2, 4, 13)


class Margins(NamedTuple):
    """Margins of examples and their gradients."""

    values: NDArray[np.float64]  #: (n,)
    gradients: NDArray[np.float64]  #: (n, entries)


class Sketch:
    """A random linear map of gradients to `ENTRIES` numbers that preserves inner products in expectation.

    Entry i of a gradient is added to entry i mod `ENTRIES` with a random sign (Charikar et al. 2002).
    """

    def __init__(self, size: int, seed: int, device: Device) -> None:
        """Draw the signs of `size` entries."""
        rng = torch.Generator().manual_seed(seed)
        self.padding = -size % ENTRIES
        self.signs = torch.randint(0, 2, (size,), generator=rng).mul_(2).sub_(1).float().to(device.name)

    def __call__(self, gradients: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the sketch, (entries,), of gradients with `size` entries in total."""
        signed = torch.cat([each.flatten() for each in gradients]).mul_(self.signs)
        return torch.nn.functional.pad(signed, (0, self.padding)).view(-1, ENTRIES).sum(0)


def grad_tag_affinity(runs: SingleRuns) -> NDArray[np.float64]:
    """Return `grad_tag` of single-task models with the pretrained encoder, (tasks, tasks)."""
    model, seed = runs.under_one_encoder(), derive(runs.seed, "sketch")
    return grad_tag(model, runs.examples, *runs.halves, runs.device, seed)


def grad_tag(
    model: MultiTask, examples: Mapping[str, Examples], fitted: Rows, judged: Rows, device: Device, seed: int
) -> NDArray[np.float64]:
    """Return the share of a target's loss on `judged` rows that adding a source's `fitted` rows removes.

    `seed` determines the sketch.

    Returns
    -------
    (tasks, tasks), source first; 0 for a task with itself
    """
    sketch = Sketch(sum(p.numel() for p in parameters(model)), seed, device)
    progress = Progress(sum(map(len, [*fitted.values(), *judged.values()])), "examples")
    halves = [
        [margins(model, task, each, rows[task], sketch, device, progress) for task, each in examples.items()]
        for rows in (fitted, judged)
    ]
    return affinities(*halves)


def margins(
    model: MultiTask, task: str, examples: Examples, rows: np.ndarray, sketch: Sketch, device: Device,
    progress: Progress,
) -> Margins:  # fmt: skip
    """Return margins of `rows` (n,), and sketches of their gradients, one example at a time in float32."""
    exact = replace(device, autocast=None)
    clipped, gradients = [], []
    for row in rows:
        loss = losses(model, task, examples.batch(np.array([row]), exact.name), exact).sum()
        slopes = torch.autograd.grad(loss, parameters(model), allow_unused=True, materialize_grads=True)
        clipped.append(max(loss.item(), LEAST))
        gradients.append(sketch(slopes).cpu().numpy() / np.expm1(-clipped[-1]))  # of -log(exp(loss) - 1)
        progress.advance(1, task)
    sketches = np.stack(gradients).astype(float)  # (n, entries)
    devices.require_finite(sketches, f"gradients of the loss of task '{task}'", rows, exact)
    return Margins(-np.log(np.expm1(clipped)), sketches)


def affinities(fitted: Sequence[Margins], judged: Sequence[Margins]) -> NDArray[np.float64]:
    """Return affinities of all tasks, (tasks, tasks), source first, 0 with themselves, from both halves.

    All fits have the same penalty: the one for which fits of single tasks have the lowest mean loss.
    """
    norm = np.sqrt(np.mean([np.square(each.gradients).sum(1).mean() for each in fitted]))
    fitted, judged = (
        [Margins(each.values, each.gradients / norm) for each in half] for half in (fitted, judged)
    )
    still = np.array([mean_loss(each, np.zeros(each.gradients.shape[1])) for each in judged])
    # (penalties, tasks)
    alone = np.array([
        [mean_loss(test, fit_weights([train], penalty)) for train, test in zip(fitted, judged, strict=True)]
        for penalty in PENALTIES
    ])  # fmt: skip
    best = int((alone / still).mean(1).argmin())
    log.info("penalty %g: %.3f of the loss left", PENALTIES[best], (alone / still).mean(1)[best])
    affinity = np.zeros((len(fitted), len(fitted)))
    for source, target in itertools.permutations(range(len(fitted)), 2):
        together = fit_weights([fitted[target], fitted[source]], PENALTIES[best])
        affinity[source, target] = 1 - mean_loss(judged[target], together) / alone[best, target]
    return affinity


def fit_weights(tasks: Sequence[Margins], penalty: float) -> NDArray[np.float64]:
    """Return the weights, (entries,), that minimise the `objective` of all examples of `tasks`."""
    together = Margins(*map(np.concatenate, zip(*tasks, strict=True)))
    start = np.zeros(together.gradients.shape[1])
    found: NDArray[np.float64] = minimize(
        objective, start, (together, penalty), jac=True, method="L-BFGS-B"
    ).x
    return found


def objective(
    weights: NDArray[np.float64], task: Margins, penalty: float
) -> tuple[float, NDArray[np.float64]]:
    """Return summed losses plus penalty / 2 times squared `weights`, summed, and the gradient, (entries,)."""
    moved = task.values + task.gradients @ weights  # (n,)
    total = np.logaddexp(0, -moved).sum() + penalty / 2 * weights @ weights
    return total, penalty * weights - expit(-moved) @ task.gradients


def mean_loss(task: Margins, weights: NDArray[np.float64]) -> float:
    """Return the mean loss of a task's examples at `weights`, (entries,)."""
    return float(np.logaddexp(0, -(task.values + task.gradients @ weights)).mean())
