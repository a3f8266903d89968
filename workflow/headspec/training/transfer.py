"""Few-shot transfer: an encoder learns an unseen task from a few examples."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch

from headspec.models.batching import Batch, Examples
from headspec.models.devices import Device
from headspec.models.finite import diverged, divergence, require
from headspec.models.internals.representations import vectors
from headspec.models.multitask import MultiTask
from headspec.progress import Progress
from headspec.seeds import derive
from headspec.statistics.metrics import chance, score
from headspec.tables import FLOAT, INT, TEXT, Schema
from headspec.training import linear_probe
from headspec.training.checkpoint import Checkpoint
from headspec.training.microbatches import backward
from headspec.training.schedule import learning_rate
from headspec.training.updates import Updates
from headspec.training.vocabulary import compact_vocabulary

if TYPE_CHECKING:
    from headspec.config.sections.training import Training
    from headspec.config.sections.transfer import Transfer

TRANSFERRED = Schema(
    {"tuning": TEXT, "samples": INT, "draw": INT, "metric": TEXT, "value": FLOAT, "chance": FLOAT}, keys=4
)
"""Table `transferred`: a row for each fit and metric.
runs/{model}/{mixture}/{method}/seed{seed}/transfer/{task}.parquet

value: value of the metric
"""


def transfer(
    model: MultiTask,
    task: str,
    train: pd.DataFrame,
    validation: pd.DataFrame,
    draws: pd.DataFrame,
    metrics: list[str],
    settings: Transfer,
    training: Training,
    seed: int,
    device: Device,
    checkpoint: Checkpoint,
    microbatches: int = 1,
) -> pd.DataFrame:
    """Scores on the validation set after every fit: ways of tuning x numbers of samples x draws.

    Every fit starts from the same encoder, restored bit by bit. In full fine-tuning, the initial
    weights of the classifier depend on `seed` and the draw; batches and dropout also depend on the
    number of samples. None of these depends on the encoder. The linear classifier has no randomness.

    Parameters
    ----------
    model : its encoder is transferred; it has a classifier for `task` alone, which is replaced
    train, validation : tables 'tokens' of the task
    draws : table 'draws'
    metrics : names of the task's metrics
    training : settings that the section `transfer` takes from the section `training`
    checkpoint : scores so far, from which an interrupted job continues
    microbatches : as in `headspec.training.loop.trainer`

    Returns
    -------
    table 'transferred'
    """
    model.to(device.name)
    initial = {name: value.clone() for name, value in model.encoder.state_dict().items()}
    interrupted = checkpoint.load(device.name)
    rows = [tuple(row) for row in interrupted["rows"]] if interrupted else []
    done = {row[:3] for row in rows}
    order = sorted(settings.tuning, reverse=True)  # linear first, while the encoder is unchanged
    fits = [
        fit for fit in itertools.product(order, settings.samples, range(settings.draws)) if fit not in done
    ]
    progress = Progress(len(order) * len(settings.samples) * settings.draws, "fits")
    progress.resume(progress.total - len(fits))
    held_out = Examples(validation)
    chances = {metric: chance(metric, held_out.label) for metric in metrics}
    by_example = train.set_index("example", drop=False).loc[np.unique(draws["example"])]
    by_draw = {draw: drawn["example"].to_numpy() for draw, drawn in draws.groupby("draw")}

    @functools.cache
    def frozen_vectors() -> list[np.ndarray]:
        """Vectors of the training and validation examples from the unchanged encoder."""
        return [
            vectors(model, task, examples, np.arange(len(examples)), device).astype(float)
            for examples in (Examples(by_example), held_out)
        ]

    for tuning, samples, draw in fits:
        chosen = by_example.loc[by_draw[draw][:samples]]
        if tuning == "linear":
            few, labels = by_example.index.get_indexer(chosen.index), chosen["label"].to_numpy()
            scores = model.classes[task] is None
            predicted = linear_probe.predictions(
                frozen_vectors()[0][few], labels, frozen_vectors()[1], scores, settings.penalty
            )
        else:
            model.encoder.load_state_dict(initial)
            torch.manual_seed(derive(seed, "transfer classifier", task, draw))
            model.new_classifiers(model.classes)
            model.to(device.name)
            fit_seed = derive(seed, "transfer", task, draw, samples)
            microbatches = tune(
                model, task, Examples(chosen), settings, training, fit_seed, device, microbatches
            )
            predicted = predictions(model, task, held_out, device)
        for metric in metrics:
            value = score(metric, held_out.label, predicted)
            rows.append((tuning, samples, draw, metric, value, chances[metric]))
        progress.advance(1, f"{tuning}, {samples} samples: {metrics[0]} {rows[-len(metrics)][4]:.3f}")
        if checkpoint.due():
            checkpoint.save({"rows": rows})
    model.encoder.load_state_dict(initial)
    return pd.DataFrame(rows, columns=list(TRANSFERRED.columns))


def tune(
    model: MultiTask,
    task: str,
    examples: Examples,
    settings: Transfer,
    training: Training,
    seed: int,
    device: Device,
    microbatches: int,
) -> int:
    """Fine-tune encoder and classifier on a few examples.

    Returns
    -------
    microbatches : the number of microbatches that the last batch needed

    Raises
    ------
    NumericalError
        A loss or the norm of a gradient is not finite.
    """
    model.train().requires_grad_(True)
    model.attend_for_gradients(device)
    torch.manual_seed(seed)
    rate = settings.learning_rate or training.learning_rate
    compact = training.weight_decay == 0
    by_task = {task: examples}
    with compact_vocabulary(model, by_task) if compact else nullcontext(by_task) as renumbered:

        def losses(batch: Batch) -> torch.Tensor:
            return model.losses(task, model.pool(batch), batch.labels)

        updates = Updates(model, training)
        rng, losses_and_norms = np.random.default_rng(seed), []
        for number, rows in enumerate(batches(len(examples), settings.batch_size, settings.steps, rng)):
            batch = renumbered[task].batch(rows, device.name)
            loss, microbatches = backward(losses, batch, updates.parameters, microbatches, device)
            norm = updates.step(task, learning_rate(number, settings.steps, rate, training.warmup))
            losses_and_norms.append(torch.stack([loss, norm]))
    if diverging := divergence(torch.stack(losses_and_norms).tolist()):
        number, what = diverging
        where = f"step {number + 1} of {settings.steps} on {len(examples)} examples of task '{task}'"
        key = "transfer.learning_rate" if settings.learning_rate else "training.learning_rate"
        raise diverged(where, what, key, rate, training.clip, device)
    return microbatches


def batches(n: int, size: int, steps: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """`steps` batches of min(n, `size`) of n rows; how often rows occur differs by at most one."""
    size = min(n, size)
    passes = -(-steps * size // n)
    stream = np.concatenate([rng.permutation(n) for _ in range(passes)])
    yield from stream[: steps * size].reshape(steps, size)


@torch.no_grad()
def predictions(model: MultiTask, task: str, examples: Examples, device: Device) -> np.ndarray:
    """Class indices, or scores for regression, (n,)."""
    pooled = torch.from_numpy(vectors(model, task, examples, np.arange(len(examples)), device))
    predicted = model.predictions(task, pooled.to(device.name)).cpu().numpy()
    require(predicted, f"predictions of task '{task}'", examples.example, device)
    return predicted
