"""The speed of this machine: headspec against the plain way to compute the same.

``python -m headspec.bench`` prints a table; ``python -m headspec.bench README.md`` also puts it into
that file. Contenders take turns within a round, so that a slow stretch of the machine hits them all,
and a ratio is of two times of one round.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import nn

from headspec import devices, encoders, encoding, tasks, validation
from headspec.baselines import gradients_one_by_one, predictions_one_by_one, train_padded
from headspec.batching import Examples
from headspec.devices import Device
from headspec.errors import HeadspecError
from headspec.iat import Own
from headspec.importance import gate_gradients
from headspec.maps import prune_count
from headspec.masks import masks, random_heads
from headspec.multitask import MultiTask
from headspec.pruning import predictions
from headspec.reference import between
from headspec.sections import Training
from headspec.timing import HEADING, Run, machine, measure, multiplication, row
from headspec.training import Checkpoint, train, trainer

CONFIG = Path(__file__).parents[2] / "config.yaml"
MAX_LENGTH, ROUNDS = 128, 5
PADDED = 256  # tokens of every example in the plain way of training
BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"

Build = Callable[[], MultiTask]

#: device: task of the demo: examples for training, for training with padding, and for the rest
SIZES = {
    "cpu": {"sentiment": (320, 32, 96), "topic-pair": (96, 32, 32)},
    "cuda": {"sentiment": (3200, 320, 960), "topic-pair": (960, 320, 320)},
}


@dataclass(frozen=True)
class Workload:
    """Examples of one task: `name` says what they are."""

    name: str
    task: str
    train: Examples
    padded: Examples  # for training with padding, whose time does not depend on the texts
    score: Examples  # for importance, and under every mask
    check: Examples  # for comparing losses


def train_bucketed(
    model: MultiTask, task: str, examples: Examples, settings: Training, device: Device
) -> list[float]:
    """`headspec.training.train`, without checkpoints; the loss of every step."""
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Checkpoint(Path(folder) / "checkpoint", "", float("inf"))
        return train(model, {task: examples}, settings, None, 0, device, checkpoint)["loss"].tolist()


def train_own(
    model: MultiTask, task: str, examples: Examples, settings: Training, device: Device, heads: np.ndarray
) -> None:
    """As `train_bucketed`, but of the heads of two tasks, bool (2, layers, heads), `task` moves its own."""
    own = Own({task: heads[0], "": heads[1]}, "qkv")
    with (
        tempfile.TemporaryDirectory() as folder,
        trainer(model, {task: examples}, settings, None, 0, device) as run,
        own.applied(run),
    ):
        run.run(len(run.steps), Checkpoint(Path(folder) / "checkpoint", "", float("inf")))


def training_flops(model: MultiTask, lengths: np.ndarray) -> float:
    """Floating-point operations of training once on examples of `lengths` tokens, without padding.

    6 P T for the weight matrices of the layers (P parameters, T tokens; 2 P T forward, twice that
    backward), 12 L d t^2 for the attention of an example of t tokens (L layers, hidden size d).
    Pooler and classifiers, which see one vector per example, are left out. Every layer must have
    weights of its own, in Linear modules.
    """
    matrices = sum(
        module.weight.numel()
        for name, module in model.encoder.named_modules()
        if isinstance(module, nn.Linear) and not name.startswith("pooler")
    )
    squares = (lengths.astype(float) ** 2).sum()
    attention = model.gates.layers * model.encoder.config.hidden_size * squares
    return 6.0 * matrices * lengths.sum() + 12.0 * attention


def rows(
    work: Workload,
    build: Build,
    settings: Training,
    device: Device,
    rounds: int = ROUNDS,
    tokens: int = PADDED,
) -> Iterator[str]:
    """The lines of the table for `work`, each as soon as it is measured.

    Parameters
    ----------
    build : makes a new model, the same every time
    tokens : length to which the plain way of training pads
    """
    ours = build()
    yield from training_rows(work, build, ours, settings, device, rounds, tokens)
    yield iat_row(work, build, settings, device, rounds)

    def trained() -> MultiTask:
        model = build()
        model.load_state_dict(ours.state_dict())
        return model

    yield from importance_rows(work, trained, device, rounds)
    yield from pruning_rows(work, trained, device, rounds)


def training_rows(
    work: Workload,
    build: Build,
    ours: MultiTask,
    settings: Training,
    device: Device,
    rounds: int,
    tokens: int,
) -> Iterator[str]:
    """Training, which leaves `ours` trained, against padding in float32, and its share of the matrix peak."""
    plain = build()
    multiply, products = multiplication(device)
    contenders: list[Run] = [
        lambda: train_padded(plain, work.task, work.padded, settings, device, tokens),
        lambda: train_bucketed(ours, work.task, work.train, settings, device),
        multiply,
    ]
    padding, buckets, products_seconds = measure(contenders, rounds, device)
    error = loss_error(work, build, settings, device, tokens)
    rates = len(work.padded) / padding, len(work.train) / buckets
    yield row(f"training, {work.name}/s", *rates, f"losses within {error:.1e}")
    flops = training_flops(ours, work.train.lengths)
    rates = products / products_seconds / 1e9, flops / buckets / 1e9
    yield row(f"GFLOP/s of matrix products, of training on {work.name}", *rates)


def iat_row(work: Workload, build: Build, settings: Training, device: Device, rounds: int) -> str:
    """Steps that move a task's own heads, 30 % of all, against steps that move everything."""
    plain, ours = build(), build()
    grid, rng = (ours.gates.layers, ours.gates.heads), np.random.default_rng(0)
    heads = np.stack([random_heads(grid, prune_count(0.3, grid[0] * grid[1]), rng) for _ in range(2)])
    contenders: list[Run] = [
        lambda: train_bucketed(plain, work.task, work.train, settings, device),
        lambda: train_own(ours, work.task, work.train, settings, device, heads),
    ]
    rates = len(work.train) / measure(contenders, rounds, device)
    return row(f"training by IAT, {work.name}/s, from plain training", *rates)


def loss_error(
    work: Workload, build: Build, settings: Training, device: Device, tokens: int, epochs: int = 3
) -> float:
    """Largest relative difference of losses in `epochs` steps, each on all of `check`, without dropout."""
    settings = settings.model_copy(update={"epochs": epochs, "batch_size": len(work.check)})
    models = build(), build()
    for module in (m for model in models for m in model.modules()):
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    expected = np.array(train_padded(models[0], work.task, work.check, settings, device, tokens))
    found = np.array(train_bucketed(models[1], work.task, work.check, settings, device))
    return float(np.abs(found / expected - 1).max())


def importance_rows(work: Workload, build: Build, device: Device, rounds: int) -> Iterator[str]:
    """Importance against one float32 pass per example."""
    plain, ours = build(), build()
    rows = np.arange(len(work.score))
    contenders: list[Callable[[], np.ndarray]] = [
        lambda: gradients_one_by_one(plain, work.task, work.score, device),
        lambda: gate_gradients(ours, work.task, work.score, rows, device),
    ]
    single, batched = len(work.score) / measure([*contenders], rounds, device)
    expected, found = (np.abs(run()).mean(axis=0).ravel() for run in contenders)
    same = f"Spearman {spearmanr(expected, found).statistic:.5f}"
    yield row(f"importance, {work.name}/s", single, batched, same)


def pruning_rows(work: Workload, build: Build, device: Device, rounds: int) -> Iterator[str]:
    """Masked evaluations against a pass over unsorted batches per mask, in this precision and in float32."""
    plain, ours = build(), build()
    rng = np.random.default_rng(0)
    grid = rng.random((ours.gates.layers, ours.gates.heads))
    planned = masks({work.task: grid}, 0.3, [0.3], draws=2, seed=0)
    precisions = {own.precision: own for own in (device, replace(device, autocast=None))}
    contenders: list[Callable[[], np.ndarray]] = [
        partial(predictions_one_by_one, plain, work.task, work.score, planned, own)
        for own in precisions.values()
    ]
    contenders.append(lambda: predictions(ours, {work.task: work.score}, planned, device)[work.task])
    *rates, our_rate = len(planned) * len(work.score) / measure([*contenders], rounds, device)
    *expected, found = (run() for run in contenders)
    for precision, rate, values in zip(precisions, rates, expected, strict=True):
        same = f"{(found == values).mean():.1%} of predictions"
        yield row(f"masked {work.name}/s, from {precision}", rate, our_rate, same)


def workloads(device: Device, key: str = "minilm") -> tuple[list[Workload], Build, Training]:
    """Single sentences and pairs of long texts of the demo, its model, and one epoch of its training."""
    study = validation.load(validation.strict_yaml(CONFIG))
    model = study.models[key].model_copy(update={"max_length": MAX_LENGTH})
    whole = {name: task.model_copy(update={"train_examples": None}) for name, task in study.tasks.items()}
    topic = tasks.prepare("topic", whole["topic"], study.data_seed)
    prepared = {
        "sentiment": tasks.prepare("sentiment", whole["sentiment"], study.data_seed),
        "topic-pair": tasks.prepare("topic-pair", whole["topic-pair"], study.data_seed, topic),
    }
    tokenizer = encoding.tokenizer(model, f"models.{key}")
    found = []
    for task, name in {"sentiment": "sentences", "topic-pair": "pairs of news"}.items():
        own = prepared[task]
        sizes = (*SIZES[device.name][task], 8)
        frame, _ = encoding.encode(tokenizer, own.train.head(max(sizes)), MAX_LENGTH, own.classes)
        found.append(Workload(name, task, *(Examples(frame.head(n)) for n in sizes)))
    classes = {task: own.classes for task, own in prepared.items()}

    def build() -> MultiTask:
        torch.manual_seed(0)
        return MultiTask(*encoders.load(model, f"models.{key}"), classes)

    return found, build, study.training.model_copy(update={"epochs": 1})


def main() -> None:
    parser = argparse.ArgumentParser(prog="headspec.bench", description="Measure the speed of this machine.")
    parser.add_argument("file", nargs="?", type=Path, help="put the table into this file too")
    parser.add_argument(
        "--threads", type=int, default=len(os.sched_getaffinity(0)), help="default: all cores"
    )
    args = parser.parse_args()
    if args.file:
        between(args.file.read_text(encoding="utf-8"), BEGIN, END, "")  # refused now, not at the end
    device = devices.prepare("auto", args.threads)
    works, build, settings = workloads(device)
    lines = [HEADING]
    print(HEADING, flush=True)
    for work in works:
        for line in rows(work, build, settings, device):
            print(line, flush=True)
            lines.append(line)
    lines += ["", machine(device)]
    print("\n" + lines[-1])
    if args.file:
        text = args.file.read_text(encoding="utf-8")
        args.file.write_text(between(text, BEGIN, END, "\n" + "\n".join(lines) + "\n"), encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except HeadspecError as error:
        sys.exit(str(error))
