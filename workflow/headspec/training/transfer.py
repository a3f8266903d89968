"""Few-shot transfer: an encoder learns an unseen task from a few examples."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from headspec.config.sections.iat import Transfer
from headspec.config.sections.training import Training
from headspec.models.batching import Batch, Examples
from headspec.models.devices import Device, diverged, divergence, require_finite
from headspec.models.internals.activations import vectors
from headspec.models.multitask import MultiTask
from headspec.progress import Progress
from headspec.seeds import derive
from headspec.tables import FLOAT, INT, TEXT, Schema
from headspec.tasks.metrics import chance, score
from headspec.training.checkpoint import Checkpoint
from headspec.training.schedule import learning_rate
from headspec.training.trainable import can_be_compact, compact_vocabulary
from headspec.training.updates import Updates, backward

Floats = NDArray[np.float64]

TRANSFERRED = Schema(
    {"tuning": TEXT, "samples": INT, "draw": INT, "metric": TEXT, "value": FLOAT, "chance": FLOAT},
    keys=4,
    paths=("{run}/transfer/{task}.parquet",),
)


@dataclass(frozen=True)
class Target:
    """The unseen task: its tables 'tokens' (`train`, `validation`) and 'draws', and names of metrics."""

    task: str
    train: pd.DataFrame
    validation: pd.DataFrame
    draws: pd.DataFrame
    metrics: list[str]

    @functools.cached_property
    def drawn(self) -> pd.DataFrame:
        """Return the training examples of all draws, each once, with their numbers as index."""
        return self.train.set_index("example", drop=False).loc[np.unique(self.draws["example"])]

    def examples(self, draw: int, samples: int) -> pd.DataFrame:
        """Return the first `samples` training examples of a draw."""
        return self.drawn.loc[self.draws.loc[self.draws["draw"] == draw, "example"].iloc[:samples]]


@dataclass(frozen=True)
class Fitting:
    """How the task is learnt; `training` has the settings from the section `training`."""

    settings: Transfer
    training: Training
    seed: int
    device: Device

    def fits(self) -> list[tuple[str, int, int]]:
        """Return the tuning, number of samples and draw of every fit."""
        order = sorted(self.settings.tuning, reverse=True)  # linear first, while the encoder is unchanged
        return list(itertools.product(order, self.settings.samples, range(self.settings.draws)))


def transfer(
    model: MultiTask, target: Target, fitting: Fitting, checkpoint: Checkpoint, microbatches: int = 1
) -> pd.DataFrame:
    """Return the table 'transferred': scores on the validation set after every fit.

    Every fit starts from bitwise the same encoder. In full fine-tuning, seed and draw determine the
    classifier's initial weights and, with the number of samples, batches and dropout. The linear classifier
    has no randomness. The model's only classifier, for the target, is replaced; `checkpoint` stores the
    scores so far, from which an interrupted job continues. Raises NumericalError as `tune`.
    """
    task, seed, device = target.task, fitting.seed, fitting.device
    model.to(device.name)
    initial = {name: value.clone() for name, value in model.encoder.state_dict().items()}
    interrupted = checkpoint.load()
    rows = [tuple(row) for row in interrupted["rows"]] if interrupted else []
    done = {row[:3] for row in rows}
    progress = Progress(len(fitting.fits()), "fits")
    progress.resume(len(done))
    held_out = Examples(target.validation)
    chances = {metric: chance(metric, held_out.label) for metric in target.metrics}
    frozen = functools.cache(functools.partial(linear_predictor, model, target, fitting))
    for tuning, samples, draw in fitting.fits():
        if (tuning, samples, draw) in done:
            continue
        chosen = target.examples(draw, samples)
        if tuning == "linear":
            predicted = frozen()(chosen)
        else:
            model.encoder.load_state_dict(initial)
            torch.manual_seed(derive(seed, "transfer classifier", task, draw))
            model.new_classifiers(model.classes)
            model.to(device.name)
            settings = replace(fitting, seed=derive(seed, "transfer", task, draw, samples))
            microbatches = tune(model, task, Examples(chosen), settings, microbatches)
            predicted = predictions(model, task, held_out, device)
        for metric in target.metrics:
            value = score(metric, held_out.label, predicted)
            rows.append((tuning, samples, draw, metric, value, chances[metric]))
        note = f"{tuning}, {samples} samples: {target.metrics[0]} {rows[-len(target.metrics)][4]:.3f}"
        progress.advance(1, note)
        if checkpoint.due():
            checkpoint.save({"rows": rows})
    model.encoder.load_state_dict(initial)
    return pd.DataFrame(rows, columns=list(TRANSFERRED.columns))


def linear_predictor(
    model: MultiTask, target: Target, fitting: Fitting
) -> Callable[[pd.DataFrame], np.ndarray]:
    """Return a function that fits a probe to the encoder's current vectors and predicts, (validation,)."""
    train, test = (
        vectors(model, target.task, examples, np.arange(len(examples)), fitting.device).astype(float)
        for examples in (Examples(target.drawn), Examples(target.validation))
    )

    def predicted(chosen: pd.DataFrame) -> np.ndarray:
        few, labels = target.drawn.index.get_indexer(chosen.index), chosen["label"].to_numpy()
        scores = model.classifier(target.task).regresses
        return probed(train[few], labels, test, scores, fitting.settings.penalty)

    return predicted


def probed(train: Floats, labels: Floats, test: Floats, scores: bool, penalty: float) -> Floats:
    """Fit a linear probe to `train` (n, d); return its class indices, or scores, (m,), for `test` (m, d).

    The fit minimises the sum of the samples' losses plus penalty / 2 times the squared norm of the weights,
    without the intercept. Vectors are centred and scaled to a mean variance of 1 over dimensions, so that the
    penalty has the same effect for every encoder. For `scores`, the loss is half the squared error.
    """
    from sklearn.linear_model import LogisticRegression, Ridge  # slow to import, and only needed here

    centre = train.mean(axis=0)
    scale = np.sqrt(((train - centre) ** 2).mean()) or 1.0  # 0 if all vectors are the same
    probe = Ridge(alpha=penalty) if scores else LogisticRegression(C=1 / penalty, tol=1e-8, max_iter=5000)
    predicted: Floats = probe.fit((train - centre) / scale, labels).predict((test - centre) / scale)
    return predicted


def tune(model: MultiTask, task: str, examples: Examples, fitting: Fitting, microbatches: int) -> int:
    """Fine-tune encoder and classifier on a few examples; return the microbatches of the last batch.

    Raises NumericalError if a loss or the norm of a gradient is not finite.
    """
    settings, training, device = fitting.settings, fitting.training, fitting.device
    model.train().requires_grad_(True)
    model.attend_for_gradients(device)
    torch.manual_seed(fitting.seed)
    rate = settings.learning_rate or training.learning_rate
    compact = training.weight_decay == 0 and can_be_compact(model)
    by_task = {task: examples}
    with compact_vocabulary(model, by_task) if compact else nullcontext(by_task) as renumbered:

        def losses(batch: Batch) -> torch.Tensor:
            return model.losses(task, model.pool(batch), batch.labels)

        updates = Updates(model, training)
        rng, losses_and_norms = np.random.default_rng(fitting.seed), []
        for number, rows in enumerate(batches(len(examples), settings.batch_size, settings.steps, rng)):
            batch = renumbered[task].batch(rows, device.name)
            loss, microbatches = backward(losses, batch, updates.parameters, microbatches, device)
            scheduled = learning_rate(number, settings.steps, rate, training.warmup, training.decay)
            norm = updates.step(task, scheduled)
            losses_and_norms.append(torch.stack([loss, norm]))
    if diverging := divergence(torch.stack(losses_and_norms).tolist()):
        number, what = diverging
        where = f"step {number + 1} of {settings.steps} on {len(examples)} examples of task '{task}'"
        key = "transfer.learning_rate" if settings.learning_rate else "training.learning_rate"
        raise diverged(where, what, key, rate, training.clip, device)
    return microbatches


def batches(n: int, size: int, steps: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield `steps` batches of min(n, `size`) of n rows; how often rows occur differs by at most one."""
    size = min(n, size)
    passes = -(-steps * size // n)
    stream = np.concatenate([rng.permutation(n) for _ in range(passes)])
    yield from stream[: steps * size].reshape(steps, size)


@torch.no_grad()
def predictions(model: MultiTask, task: str, examples: Examples, device: Device) -> np.ndarray:
    """Return class indices, or scores for regression, (n,); NumericalError if one is not finite."""
    pooled = torch.from_numpy(vectors(model, task, examples, np.arange(len(examples)), device))
    predicted = model.predictions(task, pooled.to(device.name)).cpu().numpy()
    require_finite(predicted, f"predictions of task '{task}'", examples.example, device)
    return predicted
