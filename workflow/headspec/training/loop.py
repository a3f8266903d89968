"""Multi-task fine-tuning: the training loop, and resuming it from a checkpoint."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch

from headspec.config.sections.training import Training
from headspec.errors import NumericalError
from headspec.models.batching import Batch, Examples, put
from headspec.models.devices import Device, diverged, divergence
from headspec.models.multitask import MultiTask
from headspec.models.saved import adapters
from headspec.progress import Progress, log
from headspec.seeds import derive
from headspec.tables import FLOAT, INT, TEXT, Schema
from headspec.training.checkpoint import Checkpoint
from headspec.training.schedule import Step, branch_point, learning_rates, schedule
from headspec.training.trainable import can_be_compact, compact_vocabulary
from headspec.training.updates import UpdateRule, Updates, backward, random_state, set_random_state

TRAINING = Schema(
    {"step": INT, "epoch": INT, "task": TEXT, "loss": FLOAT, "learning_rate": FLOAT,
     "examples_per_second": FLOAT, "memory_mb": FLOAT},
    keys=1,
    paths=("{run}/training.parquet",),
    about={
        "epoch": "pass over the training examples",
        "loss": "mean loss of the batch",
        "learning_rate": "of the step",
        "examples_per_second": "speed at that time; empty for steps of the run that IAT continues",
        "memory_mb": "peak so far, of the GPU or the process; empty for these steps, too",
    },
)  # fmt: skip
#: number of columns before those that are measured, and so differ between equal runs
MEASURED = 5


@dataclass(frozen=True)
class Setup:
    """The data and settings of a run.

    Attributes
    ----------
    examples : task: its examples
    seed : determines the order of batches, and dropout
    microbatches : number of parts in which a batch passes through the encoder, to save memory; the step is
        the same. It grows when memory runs out.
    features : task: (n, hidden) float32, text vectors of the frozen encoder, on which only the classifiers
        are trained; states of words are recomputed each time. None to train the encoder, too
    """

    examples: dict[str, Examples]
    settings: Training
    seed: int
    device: Device
    microbatches: int = 1
    features: dict[str, np.ndarray] | None = None


class Gating:
    """Gates on the heads while a run trains."""

    def begin(self, run: Trainer, number: int) -> list[torch.Tensor]:
        """Set the gates of step `number`, (layers, heads); return those that need gradients."""
        raise NotImplementedError

    def end(self) -> None:
        """Update the gates by the gradients, if any, of the backward pass."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""


class Trainer:
    """A training run that can be saved and restored between steps.

    Attributes
    ----------
    steps : all steps of the run, done or not
    rates : their learning rates
    history : a row of the table `training` for every step done
    rate_key : config key of the peak learning rate
    updates : applies the gradients of a step; restrictions of `headspec.training.variants` replace it
    gating : gates on the heads, if any
    sync_interval : seconds between reads of the losses, which stall a GPU
    """

    def __init__(
        self, model: MultiTask, setup: Setup, examples: dict[str, Examples], steps: list[Step]
    ) -> None:
        settings, device, features = setup.settings, setup.device, setup.features
        self.model, self.examples, self.steps, self.settings = model, examples, steps, settings
        self.device, self.microbatches = device, setup.microbatches
        frozen, adapted = features is not None, adapters(model.encoder)
        self.features = None if features is None else {t: put(v, device.name) for t, v in features.items()}
        model.train()
        model.encoder.train(not frozen).requires_grad_(not frozen and not adapted)
        for parameter in adapted.values():
            parameter.requires_grad_(True)
        section = ".frozen" if frozen else ".lora" if adapted else ""
        self.rate_key = f"training{section}.learning_rate"
        if not frozen:
            model.attend_for_gradients(device)
        for head in model.task_heads:
            head.smoothing = settings.label_smoothing
        self.rates = learning_rates(len(steps), settings.learning_rate, settings.warmup, settings.decay)
        self.updates: UpdateRule = Updates(model, settings)
        self.gating: Gating | None = None
        self.history: list[tuple[Any, ...]] = []
        self.pending: list[tuple[float, torch.Tensor]] = []  # rate, (loss, norm): steps not yet in history
        self.sync_interval = 1.0 if device.name == "cuda" else 0.0
        self.clock = 0.0

    def run(self, until: int, checkpoint: Checkpoint) -> None:
        """Train up to, but not including, step `until`.

        Raises NumericalError if a loss, a gradient's norm, or a weight is not finite; `checkpoint` keeps its
        last state.
        """
        if self.microbatches > 1 and self.features is None:
            log.info("batches in %d microbatches", self.microbatches)
        progress = Progress(sum(len(s.rows) for s in self.steps[:until]), "examples")
        progress.resume(sum(len(s.rows) for s in self.steps[: len(self.history)]))
        self.clock = time.monotonic()
        for number in range(len(self.history), until):
            step, rate = self.steps[number], self.rates[number]
            gates = self.gating.begin(self, number) if self.gating else []
            loss = self._backward(step, gates)
            self.model.gates.values = None
            if self.gating:
                self.gating.end()
            norm = self.updates.step(step.task, rate)
            self.pending.append((rate, torch.stack([loss, norm])))
            due = checkpoint.due()
            if due or number == until - 1 or time.monotonic() - self.clock >= self.sync_interval:
                self._record_steps(progress, checkpoint)
            if due:
                self._require_finite(checkpoint)
                checkpoint.save(self.state() | {"measured": [row[MEASURED:] for row in self.history]})
        self._require_finite(checkpoint)

    def _record_steps(self, progress: Progress, checkpoint: Checkpoint) -> None:
        """Move the pending steps into the history, waiting for the device; NumericalError if one diverged."""
        values = torch.stack([loss_and_norm for _, loss_and_norm in self.pending]).tolist()
        steps = self.steps[len(self.history) : len(self.history) + len(values)]
        if diverging := divergence(values):
            number, what = diverging
            raise self._diverged(len(self.history) + number, what, checkpoint)
        n, before, self.clock = sum(len(step.rows) for step in steps), self.clock, time.monotonic()
        speed, memory = n / (self.clock - before), memory_mb(self.device)
        for step, (rate, _), (loss, _) in zip(steps, self.pending, values, strict=True):
            self.history.append((len(self.history), step.epoch, step.task, loss, rate, speed, memory))
        self.pending = []
        progress.advance(n, f"loss {values[-1][0]:.3f}")

    def _require_finite(self, checkpoint: Checkpoint) -> None:
        """Raise NumericalError if a weight is not finite, before weights are saved."""
        bad = [name for name, weight in self.model.named_parameters() if not weight.isfinite().all()]
        if bad:
            what = f"the loss is finite, but {len(bad)} of the model's tensors are not, such as '{bad[0]}'"
            raise self._diverged(len(self.history) - 1, what, checkpoint)

    def _diverged(self, number: int, what: str, checkpoint: Checkpoint) -> NumericalError:
        where = f"step {number + 1} of {len(self.steps)}, a batch of task '{self.steps[number].task}'"
        kept, state = "", checkpoint.load()
        if state:
            after = len(state["history"])
            kept = f". With the same settings training goes on after step {after}, from {checkpoint.path}"
        rate, clip = self.settings.learning_rate, self.settings.clip
        return diverged(where, what, self.rate_key, rate, clip, self.device, kept)

    def _backward(self, step: Step, gates: list[torch.Tensor]) -> torch.Tensor:
        """Return the step's mean loss, a scalar, and leave its gradients in the weights and in `gates`."""

        def losses(batch: Batch) -> torch.Tensor:
            if self.features is None or step.task not in self.features:
                pooled = self.model.pool(batch)
            else:
                pooled = self.features[step.task][put(batch.rows, self.device.name)]  # (batch, hidden)
            return self.model.losses(step.task, pooled, batch.labels)

        batch = self.examples[step.task].batch(step.rows, self.device.name)
        microbatches = self.microbatches if self.features is None else 1
        loss, self.microbatches = backward(
            losses, batch, [*self.model.parameters(), *gates], microbatches, self.device
        )
        return loss

    def state(self) -> dict[str, Any]:
        """Return everything that the remaining steps depend on, except weights that are not trained.

        It contains no measured times, so that equal runs have equal states.
        """
        still = {name for name, weight in self.model.named_parameters() if not weight.requires_grad}
        learnt = {name: value for name, value in self.model.state_dict().items() if name not in still}
        state = {
            "model": learnt, "updates": self.updates.state_dict(),
            "history": [row[:MEASURED] for row in self.history],
        }  # fmt: skip
        gating = {"gating": self.gating.state_dict()} if self.gating else {}
        return state | gating | random_state()

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`, whose tensors are used in place."""
        self.model.load_state_dict({**self.model.state_dict(), **state["model"]})
        self.updates.load_state_dict(state["updates"])
        if self.gating:
            self.gating.load_state_dict(state["gating"])
        unknown = [(float("nan"),) * 2] * len(state["history"])  # measured in another job
        measured = state.get("measured", unknown)
        self.history = [(*row, *also) for row, also in zip(state["history"], measured, strict=True)]
        set_random_state(state)
        log.info("continuing after step %d of %d", len(self.history), len(self.steps))

    def frame(self) -> pd.DataFrame:
        """Return the table `training`, one row per step done."""
        return pd.DataFrame(self.history, columns=list(TRAINING.columns))


@contextmanager
def trainer(model: MultiTask, setup: Setup) -> Iterator[Trainer]:
    """Yield a run before its first step: AdamW, gradient clipping, and batches of one task each.

    If the model's encoder has adapters, its other weights are frozen. Embeddings of words that no example has
    are left out while the run lasts, if it cannot change them.
    """
    examples, settings = setup.examples, setup.settings
    rng = np.random.default_rng(derive(setup.seed, "schedule"))
    steps = schedule(examples, settings.batch_size, settings.epochs, settings.sampling, rng)
    model.to(setup.device.name)
    compact = settings.weight_decay == 0 and setup.features is None and can_be_compact(model)
    with compact_vocabulary(model, examples) if compact else nullcontext(examples) as examples:
        run = Trainer(model, setup, examples, steps)
        torch.manual_seed(derive(setup.seed, "dropout"))
        yield run


def train(
    model: MultiTask,
    setup: Setup,
    checkpoint: Checkpoint,
    trunk: Checkpoint | None = None,
    reserve: float = 0.0,
) -> pd.DataFrame:
    """Fine-tune `model` and return the table `training`, one row per step (see `trainer`).

    Resuming from `checkpoint` gives the same result.

    Parameters
    ----------
    trunk : where to save the state from which other runs branch off
    reserve : fraction of the steps after that state
    """
    with trainer(model, setup) as run:
        point = branch_point(len(run.steps), reserve)
        state = checkpoint.load()
        if state and trunk and len(state["history"]) > point and not trunk.load():
            log.info("training from the start: an earlier attempt left no state to branch off from")
        elif state:
            run.restore(state)
        if trunk and len(run.history) <= point:
            run.run(point, checkpoint)
            trunk.save(run.state())
        run.run(len(run.steps), checkpoint)
        return run.frame()


def memory_mb(device: Device) -> float:
    """Return the peak memory so far, in MiB: of the GPU, or of this process."""
    if device.name == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
