"""Multi-task fine-tuning: the loop, its checkpoints, and resuming from them."""

from __future__ import annotations

import fcntl
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from headspec.accumulation import backward, random_state, set_random_state
from headspec.batching import Batch, Examples, Step, schedule
from headspec.devices import Device
from headspec.multitask import MultiTask
from headspec.progress import Progress, log
from headspec.seeds import derive
from headspec.study import Training
from headspec.tables import atomic


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


def train(
    model: MultiTask,
    examples: dict[str, Examples],
    settings: Training,
    frozen: bool,
    seed: int,
    device: Device,
    checkpoint: Checkpoint,
    parts: int = 1,
) -> pd.DataFrame:
    """Fine-tune `model` on `examples`; resumes from `checkpoint` to the same result.

    AdamW, linear decay, gradient clipping, task-homogeneous batches. With `frozen` the encoder
    is a fixed feature extractor (no dropout, run once per example) and only the heads learn.

    Parameters
    ----------
    parts : pieces in which a batch goes through the encoder, to save memory; the step is the same.
        It grows where memory is not enough.

    Returns
    -------
    frame : the table `training`, a row per step
    """
    rng = np.random.default_rng(derive(seed, "schedule"))
    steps = schedule(examples, settings.batch_size, settings.epochs, settings.sampling, rng)
    model.to(device.name)
    compact = settings.weight_decay == 0 and not frozen
    with compact_vocabulary(model, examples) if compact else nullcontext(examples) as examples:
        model.train()
        model.encoder.requires_grad_(not frozen)
        features = {t: extract(model, e, device) for t, e in examples.items()} if frozen else None
        if not frozen:
            model.attend_for_gradients(device)
        parameters = [p for p in model.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(parameters, weight_decay=settings.weight_decay, fused=True)

        torch.manual_seed(derive(seed, "dropout"))
        history: list[tuple] = []
        state = checkpoint.load(device.name)
        if state:
            history = state["history"]
            restore(model, optimizer, state)
            log.info("continuing after step %d of %d", len(history), len(steps))
        if parts > 1 and not frozen:
            log.info("batches in %d parts", parts)
        progress = Progress(sum(len(s.rows) for s in steps), "examples")
        progress.resume(sum(len(s.rows) for s in steps[: len(history)]))

        clock = time.monotonic()
        for number, step in enumerate(steps[len(history) :], len(history)):
            rate = learning_rate(number, len(steps), settings.learning_rate, settings.warmup)
            for group in optimizer.param_groups:
                group["lr"] = rate
            loss, parts = _backward(model, examples[step.task], step, device, features, parts)
            torch.nn.utils.clip_grad_norm_(parameters, settings.clip)
            optimizer.step()
            optimizer.zero_grad()
            value, then, clock = loss.item(), clock, time.monotonic()
            speed = len(step.rows) / (clock - then)
            history.append((number, step.epoch, step.task, value, rate, speed, memory_mb(device)))
            progress.advance(len(step.rows), f"loss {value:.3f}")
            if checkpoint.due():
                checkpoint.save(capture(model, optimizer, history))
        columns = ["step", "epoch", "task", "loss", "learning_rate", "examples_per_second", "memory_mb"]
        return pd.DataFrame(history, columns=columns)


def _backward(
    model: MultiTask,
    examples: Examples,
    step: Step,
    device: Device,
    features: dict[str, torch.Tensor] | None,
    parts: int,
) -> tuple[torch.Tensor, int]:
    """The step's mean loss, with its gradients in the weights; in how many parts that took."""

    def losses(batch: Batch) -> torch.Tensor:
        pooled = model.pool(batch) if features is None else features[step.task][batch.rows]
        return model.losses(step.task, pooled, batch.labels)

    batch = examples.batch(step.rows, device.name)
    return backward(losses, batch, list(model.parameters()), parts if features is None else 1, device)


@torch.no_grad()
def extract(model: MultiTask, examples: Examples, device: Device) -> torch.Tensor:
    """Text vectors, (n, hidden), of all examples, without dropout; the model is left training."""
    model.eval()
    pooled = torch.empty(len(examples), model.encoder.config.hidden_size, device=device.name)
    with device.cast():
        for rows in (batches := examples.in_length_order(np.arange(len(examples)), device.tokens)):
            try:
                pooled[rows] = model.pool(examples.batch(rows, device.name)).float()
            except RuntimeError as error:
                batches.halve(error)
    model.train()
    return pooled


def capture(model: MultiTask, optimizer: torch.optim.Optimizer, history: list[tuple]) -> dict:
    state = {
        "model": model.state_dict(), "optimizer": optimizer.state_dict(), "history": history,
    }  # fmt: skip
    return state | random_state()


def restore(model: MultiTask, optimizer: torch.optim.Optimizer, state: dict) -> None:
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    set_random_state(state)


def memory_mb(device: Device) -> float:
    """Peak memory so far: of the GPU, or of this process."""
    if device.name == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
