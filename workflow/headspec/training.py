"""Multi-task fine-tuning: the loop, its checkpoints, and resuming from them."""

from __future__ import annotations

import fcntl
import hashlib
import resource
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from headspec.accumulation import backward, random_state, set_random_state
from headspec.batching import Batch, Examples, Step, put, schedule
from headspec.devices import Device
from headspec.errors import NumericalError
from headspec.finite import diverged, divergence
from headspec.multitask import MultiTask
from headspec.progress import Progress, log
from headspec.seeds import derive
from headspec.tables import FLOAT, INT, TEXT, Schema, atomic
from headspec.updates import Stepping, Updates

if TYPE_CHECKING:
    from headspec.sections import Training

TRAINING = Schema(
    {"step": INT, "epoch": INT, "task": TEXT, "loss": FLOAT, "learning_rate": FLOAT,
     "examples_per_second": FLOAT, "memory_mb": FLOAT},
    keys=1,
)  # fmt: skip


def learning_rate(step: int, steps: int, peak: float, warmup: float) -> float:
    """The rate of `step` (from 0): a linear rise over `warmup` of the steps, then linearly to 0."""
    rise = round(warmup * steps)
    if step < rise:
        return peak * (step + 1) / rise
    return peak * (steps - step) / max(steps - rise, 1)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """One process at a time for `path`: a job left over from a killed workflow ends first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            log.info("waiting for another process that is training this run")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def fingerprint(settings: Any, paths: Iterable[str]) -> str:
    """What a run depends on: settings, code, and its input files by content."""
    hashes = []
    for path in paths:
        with open(path, "rb") as file:
            hashes.append(hashlib.file_digest(file, "sha256").hexdigest())
    return repr([settings, hashes])


class Checkpoint:
    """The state of an unfinished run in one file; ignored where it is of another run's making.

    `fingerprint` says what the run depends on (settings, data, code): a checkpoint with another
    one is not continued.
    """

    def __init__(self, path: Path, fingerprint: str, seconds: float) -> None:
        self.path, self.fingerprint, self.seconds = path, fingerprint, seconds
        self.saved = time.monotonic()

    def load(self, device: str) -> dict | None:
        try:
            state = torch.load(self.path, map_location="cpu", weights_only=True)
        except FileNotFoundError:
            return None
        return state if state["fingerprint"] == self.fingerprint else None

    def due(self) -> bool:
        return time.monotonic() - self.saved >= self.seconds

    def save(self, state: dict) -> None:
        with atomic(self.path) as temporary:
            torch.save(state | {"fingerprint": self.fingerprint}, temporary)
        self.saved = time.monotonic()

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


@contextmanager
def compact_vocabulary(model: MultiTask, examples: dict[str, Examples]) -> Iterator[dict[str, Examples]]:
    """Reduce the word embedding to the rows that `examples` use; yields them, renumbered.

    Exact without weight decay: other rows get no gradient, and AdamW leaves them where they are.
    It saves clearing, clipping and updating them at every step. The first rows, which hold the
    special tokens, keep their numbers. On leaving, the trained rows are back in their places.
    """
    full = model.encoder.get_input_embeddings()
    used = np.unique(np.concatenate([np.arange(8), *(e.vocabulary() for e in examples.values())]))
    rows = torch.from_numpy(used).to(full.weight.device)
    padding = full.padding_idx if full.padding_idx is not None and full.padding_idx < 8 else None
    small = torch.nn.Embedding.from_pretrained(full.weight.data[rows], freeze=False, padding_idx=padding)
    model.encoder.set_input_embeddings(small)
    try:
        yield {task: e.renumbered(used) for task, e in examples.items()}
    finally:
        full.weight.data[rows] = small.weight.data
        model.encoder.set_input_embeddings(full)


class Trainer:
    """A run of training at one of its steps: goes on, is written down, and is taken up again.

    Attributes
    ----------
    steps : every step of the run, those to come included
    history : a row of the table `training` for every step done
    updates : what makes a step of the gradients; `headspec.iat` puts another in its place
    patience : seconds for which a GPU is left to compute before its losses are asked for
    """

    def __init__(
        self,
        model: MultiTask,
        examples: dict[str, Examples],
        steps: list[Step],
        settings: Training,
        features: dict[str, np.ndarray] | None,
        device: Device,
        parts: int = 1,
    ) -> None:
        self.model, self.examples, self.steps, self.settings = model, examples, steps, settings
        self.device, self.parts = device, parts
        self.features = {t: put(own, device.name) for t, own in features.items()} if features else None
        model.train()
        model.encoder.requires_grad_(self.features is None)
        if self.features is None:
            model.attend_for_gradients(device)
        self.updates: Stepping = Updates(model, settings)
        self.history: list[tuple] = []
        self.pending: list[tuple[float, torch.Tensor]] = []  # rate, and (loss, norm), of later steps
        self.patience = 1.0 if device.name == "cuda" else 0.0
        self.clock = 0.0

    def run(self, until: int, checkpoint: Checkpoint) -> None:
        """Go on to step `until`, that one not included.

        Raises
        ------
        NumericalError
            A loss, the norm of a gradient, or a weight is not finite; `checkpoint` is as it was before.
        """
        if self.parts > 1 and self.features is None:
            log.info("batches in %d parts", self.parts)
        progress = Progress(sum(len(s.rows) for s in self.steps[:until]), "examples")
        progress.resume(sum(len(s.rows) for s in self.steps[: len(self.history)]))
        settings, self.clock = self.settings, time.monotonic()
        for number in range(len(self.history), until):
            step = self.steps[number]
            rate = learning_rate(number, len(self.steps), settings.learning_rate, settings.warmup)
            loss = self._backward(step)
            norm = self.updates.step(step.task, rate)
            self.pending.append((rate, torch.stack([loss, norm])))
            due = checkpoint.due()
            if due or number == until - 1 or time.monotonic() - self.clock >= self.patience:
                self._settle(progress, checkpoint)
            if due:
                self._require_sound(checkpoint)
                checkpoint.save(self.state())
        self._require_sound(checkpoint)

    def _settle(self, progress: Progress, checkpoint: Checkpoint) -> None:
        """Write the pending steps into the history: where the processor waits for the device."""
        values = torch.stack([numbers for _, numbers in self.pending]).tolist()
        steps = self.steps[len(self.history) : len(self.history) + len(values)]
        if found := divergence(values):
            number, what = found
            raise self._diverged(len(self.history) + number, what, checkpoint)
        n, then, self.clock = sum(len(step.rows) for step in steps), self.clock, time.monotonic()
        speed, memory = n / (self.clock - then), memory_mb(self.device)
        for step, (rate, _), (loss, _) in zip(steps, self.pending, values, strict=True):
            self.history.append((len(self.history), step.epoch, step.task, loss, rate, speed, memory))
        self.pending = []
        progress.advance(n, f"loss {values[-1][0]:.3f}")

    def _require_sound(self, checkpoint: Checkpoint) -> None:
        """Raise NumericalError where a weight is not finite, before it is kept."""
        bad = [name for name, weight in self.model.named_parameters() if not weight.isfinite().all()]
        if bad:
            what = f"the loss is finite, but {len(bad)} of the model's tensors are not, such as '{bad[0]}'"
            raise self._diverged(len(self.history) - 1, what, checkpoint)

    def _diverged(self, number: int, what: str, checkpoint: Checkpoint) -> NumericalError:
        where = f"step {number + 1} of {len(self.steps)}, a batch of task '{self.steps[number].task}'"
        key = "training.learning_rate" if self.features is None else "training.frozen.learning_rate"
        kept, state = "", checkpoint.load(self.device.name)
        if state:
            after = len(state["history"])
            kept = f". With the same settings training goes on after step {after}, from {checkpoint.path}"
        settings = self.settings
        return diverged(where, what, key, settings.learning_rate, settings.clip, self.device, kept)

    def _backward(self, step: Step) -> torch.Tensor:
        """The step's mean loss, with its gradients in the weights."""

        def losses(batch: Batch) -> torch.Tensor:
            if self.features is None:
                pooled = self.model.pool(batch)
            else:
                pooled = self.features[step.task][put(batch.rows, self.device.name)]
            return self.model.losses(step.task, pooled, batch.labels)

        batch = self.examples[step.task].batch(step.rows, self.device.name)
        parts = self.parts if self.features is None else 1
        loss, self.parts = backward(losses, batch, list(self.model.parameters()), parts, self.device)
        return loss

    def state(self) -> dict:
        """All that the steps to come depend on."""
        state = {
            "model": self.model.state_dict(), "updates": self.updates.state_dict(), "history": self.history,
        }  # fmt: skip
        return state | random_state()

    def restore(self, state: dict) -> None:
        """Continue where `state` was taken; its tensors are taken over and change from here on."""
        self.model.load_state_dict(state["model"])
        self.updates.load_state_dict(state["updates"])
        self.history = list(state["history"])
        set_random_state(state)
        log.info("continuing after step %d of %d", len(self.history), len(self.steps))

    def frame(self) -> pd.DataFrame:
        """The table `training`, a row per step done."""
        columns = ["step", "epoch", "task", "loss", "learning_rate", "examples_per_second", "memory_mb"]
        return pd.DataFrame(self.history, columns=columns)


@contextmanager
def trainer(
    model: MultiTask,
    examples: dict[str, Examples],
    settings: Training,
    features: dict[str, np.ndarray] | None,
    seed: int,
    device: Device,
    parts: int = 1,
) -> Iterator[Trainer]:
    """A run at its beginning: AdamW, linear decay, gradient clipping, task-homogeneous batches.

    Parameters
    ----------
    features : task: (n, hidden) float32, the fixed encoder's vectors of its examples, from which only
        the heads learn; None where everything does
    parts : pieces in which a batch goes through the encoder, to save memory; the step is the same.
        It grows where memory is not enough.
    """
    rng = np.random.default_rng(derive(seed, "schedule"))
    steps = schedule(examples, settings.batch_size, settings.epochs, settings.sampling, rng)
    model.to(device.name)
    compact = settings.weight_decay == 0 and features is None
    with compact_vocabulary(model, examples) if compact else nullcontext(examples) as examples:
        run = Trainer(model, examples, steps, settings, features, device, parts)
        torch.manual_seed(derive(seed, "dropout"))
        yield run


def branch_point(steps: int, delta: float) -> int:
    """The step before which the last `delta` of `steps` begins."""
    return steps - round(delta * steps)


def train(
    model: MultiTask,
    examples: dict[str, Examples],
    settings: Training,
    features: dict[str, np.ndarray] | None,
    seed: int,
    device: Device,
    checkpoint: Checkpoint,
    parts: int = 1,
    trunk: Checkpoint | None = None,
    reserve: float = 0.0,
) -> pd.DataFrame:
    """Fine-tune `model` on `examples`; resumes from `checkpoint` to the same result (see `trainer`).

    Parameters
    ----------
    trunk : where the state before the last `reserve` of the steps is kept, for others to go on from

    Returns
    -------
    frame : the table `training`, a row per step
    """
    with trainer(model, examples, settings, features, seed, device, parts) as run:
        point = branch_point(len(run.steps), reserve)
        state = checkpoint.load(device.name)
        if state and trunk and len(state["history"]) > point and not trunk.load(device.name):
            log.info("training from the start: of an earlier attempt, the state to be kept is not there")
        elif state:
            run.restore(state)
        if trunk and len(run.history) <= point:
            run.run(point, checkpoint)
            trunk.save(run.state())
        run.run(len(run.steps), checkpoint)
        return run.frame()


def memory_mb(device: Device) -> float:
    """Peak memory so far: of the GPU, or of this process."""
    if device.name == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
