"""Few-shot transfer: an encoder learns a task that it has not seen from a few examples of it."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch

from headspec import linear
from headspec.accumulation import backward
from headspec.batching import Batch, Examples
from headspec.devices import Device
from headspec.finite import diverged, divergence, require
from headspec.metrics import chance, score
from headspec.multitask import MultiTask
from headspec.progress import Progress
from headspec.representations import vectors
from headspec.seeds import derive
from headspec.tables import FLOAT, INT, TEXT, Schema
from headspec.training import Checkpoint, compact_vocabulary, learning_rate
from headspec.updates import Updates

if TYPE_CHECKING:
    from headspec.sections import Training, Transfer

# of one encoder and task; chance: the best constant prediction
TRANSFERRED = Schema(
    {"tuning": TEXT, "samples": INT, "draw": INT, "metric": TEXT, "value": FLOAT, "chance": FLOAT}, keys=4
)


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
    parts: int = 1,
) -> pd.DataFrame:
    """Scores on the validation set after every fit: ways of tuning x draws x numbers of samples.

    Every fit begins at the same encoder, restored to the bit. Of full fine-tuning, the classifier's
    first weights depend on `seed` and the draw, batches and dropout also on the number of samples;
    nothing depends on the encoder. The linear head has no randomness.

    Parameters
    ----------
    model : its encoder is what is transferred; it has classifiers of `task` alone, which are replaced
    train, validation : tables 'encoded' of the task
    draws : table 'draws'
    metrics : names of the task's metrics
    training : what the section `transfer` takes from the section `training`
    checkpoint : scores so far, from which an interrupted job goes on
    parts : pieces in which a batch goes through the encoder, to save memory

    Returns
    -------
    table 'transferred'
    """
    model.to(device.name)
    begin = {name: value.clone() for name, value in model.encoder.state_dict().items()}
    known = checkpoint.load(device.name)
    rows = [tuple(row) for row in known["rows"]] if known else []
    done = {row[:3] for row in rows}
    order = sorted(settings.tuning, reverse=True)  # linear first, while the encoder is as it came
    fits = [
        fit for fit in itertools.product(order, settings.samples, range(settings.draws)) if fit not in done
    ]
    progress = Progress(len(order) * len(settings.samples) * settings.draws, "fits")
    progress.resume(progress.total - len(fits))
    unseen = Examples(validation)
    chances = {metric: chance(metric, unseen.label) for metric in metrics}
    by_example = train.set_index("example", drop=False).loc[np.unique(draws["example"])]
    by_draw = {draw: part["example"].to_numpy() for draw, part in draws.groupby("draw")}

    @functools.cache
    def fixed() -> list[np.ndarray]:
        sets = Examples(by_example), unseen
        return [vectors(model, task, own, np.arange(len(own)), device).astype(float) for own in sets]

    for tuning, samples, draw in fits:
        chosen = by_example.loc[by_draw[draw][:samples]]
        if tuning == "linear":
            few, labels = by_example.index.get_indexer(chosen.index), chosen["label"].to_numpy()
            scores = model.classes[task] is None
            found = linear.predictions(fixed()[0][few], labels, fixed()[1], scores, settings.penalty)
        else:
            model.encoder.load_state_dict(begin)
            torch.manual_seed(derive(seed, "transfer classifier", task, draw))
            model.new_heads(model.classes)
            model.to(device.name)
            one = derive(seed, "transfer", task, draw, samples)
            parts = tune(model, task, Examples(chosen), settings, training, one, device, parts)
            found = predictions(model, task, unseen, device)
        for metric in metrics:
            value = score(metric, unseen.label, found)
            rows.append((tuning, samples, draw, metric, value, chances[metric]))
        progress.advance(1, f"{tuning}, {samples} samples: {metrics[0]} {rows[-len(metrics)][4]:.3f}")
        if checkpoint.due():
            checkpoint.save({"rows": rows})
    model.encoder.load_state_dict(begin)
    return pd.DataFrame(rows, columns=list(TRANSFERRED.columns))


def tune(
    model: MultiTask,
    task: str,
    examples: Examples,
    settings: Transfer,
    training: Training,
    seed: int,
    device: Device,
    parts: int,
) -> int:
    """Fine-tune encoder and classifier on a few examples; the parts that batches went through it in.

    Raises
    ------
    NumericalError
        A loss, or the norm of a gradient, is not finite.
    """
    model.train().requires_grad_(True)
    model.attend_for_gradients(device)
    torch.manual_seed(seed)
    rate = settings.learning_rate or training.learning_rate
    compact = training.weight_decay == 0
    with compact_vocabulary(model, {task: examples}) if compact else nullcontext({task: examples}) as own:

        def losses(batch: Batch) -> torch.Tensor:
            return model.losses(task, model.pool(batch), batch.labels)

        updates = Updates(model, training)
        rng, numbers = np.random.default_rng(seed), []
        for number, rows in enumerate(batches(len(examples), settings.batch_size, settings.steps, rng)):
            batch = own[task].batch(rows, device.name)
            loss, parts = backward(losses, batch, updates.parameters, parts, device)
            norm = updates.step(task, learning_rate(number, settings.steps, rate, training.warmup))
            numbers.append(torch.stack([loss, norm]))
    if found := divergence(torch.stack(numbers).tolist()):
        where = f"step {found[0] + 1} of {settings.steps} on {len(examples)} examples of task '{task}'"
        key = "transfer.learning_rate" if settings.learning_rate else "training.learning_rate"
        raise diverged(where, found[1], key, rate, training.clip, device)
    return parts


def batches(n: int, size: int, steps: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """`steps` batches of `size` of n rows, of all where there are fewer; each row as often, but for one."""
    size = min(n, size)
    passes = -(-steps * size // n)
    stream = np.concatenate([rng.permutation(n) for _ in range(passes)])
    yield from stream[: steps * size].reshape(steps, size)


@torch.no_grad()
def predictions(model: MultiTask, task: str, examples: Examples, device: Device) -> np.ndarray:
    """Class indices, or scores for regression, (n,)."""
    pooled = torch.from_numpy(vectors(model, task, examples, np.arange(len(examples)), device))
    found = model.predictions(task, pooled.to(device.name)).cpu().numpy()
    require(found, f"predictions of task '{task}'", examples.example, device)
    return found
