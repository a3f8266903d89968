"""Benchmark: the speed of headspec on this machine, compared with plain ways to compute the same.

``headspec bench`` prints a table, and writes it into a file if one is named. Contenders take turns within a
round, and ratios compare times of one round, so that slow spells of the machine affect all.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr
from torch import nn

from headspec.atlas.ablation import ABLATION, ablate
from headspec.atlas.attention import attention_measures
from headspec.atlas.relevance import relevance_measures
from headspec.atlas.sample import sampled
from headspec.config.reference import between
from headspec.config.sections.training import Training
from headspec.cost.bench import export, large
from headspec.cost.bench.baselines import gradients_one_by_one, predictions_one_by_one, train_padded
from headspec.cost.bench.texts import Build, Workload, workloads
from headspec.cost.bench.timing import HEADING, Run, machine, measure, products, row
from headspec.cost.throughput import no_checkpoint
from headspec.heads.importance import gate_gradients
from headspec.heads.masks import Mask, masks, random_heads
from headspec.heads.pruning import predictions, under_masks
from headspec.heads.ranking import prune_count
from headspec.models import devices
from headspec.models.batching import Examples
from headspec.models.devices import Device
from headspec.models.export.onnx_file import installed
from headspec.models.multitask import MultiTask
from headspec.training.loop import train, trainer
from headspec.training.variants.own import Own

ROUNDS = 5
PADDED = 256  # tokens to which the baseline of training pads every example
MEASURED = 32  # most examples for all measures of heads
BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"


def train_bucketed(
    model: MultiTask, task: str, examples: Examples, settings: Training, device: Device
) -> list[float]:
    """Train by `headspec.training.loop.train`; return the loss of every step."""
    return train(model, {task: examples}, settings, None, 0, device, no_checkpoint())["loss"].tolist()


def train_heads(
    model: MultiTask, task: str, examples: Examples, settings: Training, device: Device, heads: np.ndarray
) -> None:
    """Train as `train_bucketed`, but move only heads[0] of the `heads` of two tasks, (2, layers, heads)."""
    own_heads = Own({task: heads[0], "": heads[1]}, "qkv")
    with trainer(model, {task: examples}, settings, None, 0, device) as run, own_heads.applied(run):
        run.run(len(run.steps), no_checkpoint())


def layer_shapes(model: MultiTask) -> list[tuple[int, int]]:
    """Return (outputs, inputs) of every linear layer that sees all tokens: neither pooler nor classifiers."""
    return [
        (module.out_features, module.in_features)
        for name, module in model.encoder.named_modules()
        if isinstance(module, nn.Linear) and not name.startswith("pooler")
    ]


def flops(model: MultiTask, lengths: np.ndarray, kinds: int) -> float:
    """Return floating-point operations on examples of `lengths` tokens, without padding.

    2 P T (P weights, T tokens) for each of the `kinds` of `headspec.cost.bench.timing.products`, and
    4 L d t^2 for the attention of an example of t tokens (L layers, hidden size d), three times that with a
    backward pass. No two layers may share weights.
    """
    matrices = sum(n * m for n, m in layer_shapes(model))
    squared_lengths = (lengths.astype(float) ** 2).sum()
    attention = 4.0 * model.gates.layers * model.encoder.config.hidden_size * squared_lengths
    return 2.0 * kinds * matrices * lengths.sum() + attention * (3 if kinds > 1 else 1)


def rows(
    work: Workload,
    build: Build,
    settings: Training,
    device: Device,
    rounds: int = ROUNDS,
    tokens: int = PADDED,
    heads: bool = True,
) -> Iterator[str]:
    """Yield the lines of the table for `work` as measured; the baseline of training pads to `tokens`."""
    ours = build()
    yield from training_rows(work, build, ours, settings, device, rounds, tokens)
    yield iat_row(work, build, settings, device, rounds)

    def trained() -> MultiTask:
        model = build()
        model.load_state_dict(ours.state_dict())
        return model

    yield from importance_rows(work, trained, device, rounds)
    yield from pruning_rows(work, trained, device, rounds)
    if heads:
        yield from ablation_rows(work, trained, device, rounds)
        yield atlas_row(work, trained, settings, device, rounds)


def training_rows(
    work: Workload,
    build: Build,
    ours: MultiTask,
    settings: Training,
    device: Device,
    rounds: int,
    tokens: int,
) -> Iterator[str]:
    """Yield training, which leaves `ours` trained, against padded float32 training and its products."""
    plain = build()
    batch = round(settings.batch_size * work.train.lengths.mean())
    multiply, multiplied = products(layer_shapes(ours), batch, 3, device)
    contenders: list[Run] = [
        lambda: train_padded(plain, work.task, work.padded, settings, device, tokens),
        lambda: train_bucketed(ours, work.task, work.train, settings, device),
        multiply,
    ]
    padding, buckets, products_seconds = measure(contenders, rounds, device)
    error = loss_error(work, build, settings, device, tokens)
    rates = len(work.padded) / padding, len(work.train) / buckets
    yield row(f"training, {work.name}/s", *rates, f"losses within {error:.1e}")
    rates = multiplied / products_seconds / 1e9, flops(ours, work.train.lengths, 3) / buckets / 1e9
    yield row(f"GFLOP/s, training on {work.name}, baseline: its matrix products alone", *rates)


def iat_row(work: Workload, build: Build, settings: Training, device: Device, rounds: int) -> str:
    """Return training that moves only the 30 % of heads that a task owns, against training of everything."""
    plain, ours = build(), build()
    exists, rng = ours.gates.exists, np.random.default_rng(0)
    heads = np.stack([random_heads(exists, prune_count(0.3, exists.size), rng) for _ in range(2)])
    contenders: list[Run] = [
        lambda: train_bucketed(plain, work.task, work.train, settings, device),
        lambda: train_heads(ours, work.task, work.train, settings, device, heads),
    ]
    rates = len(work.train) / measure(contenders, rounds, device)
    return row(f"training by IAT, {work.name}/s, baseline: plain training", *rates)


def loss_error(
    work: Workload, build: Build, settings: Training, device: Device, tokens: int, epochs: int = 3
) -> float:
    """Return the largest relative difference in loss over `epochs` steps on `check`, without dropout."""
    settings = settings.model_copy(update={"epochs": epochs, "batch_size": len(work.check)})
    models = build(), build()
    for module in (m for model in models for m in model.modules()):
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    expected = np.array(train_padded(models[0], work.task, work.check, settings, device, tokens))
    losses = np.array(train_bucketed(models[1], work.task, work.check, settings, device))
    return float(np.abs(losses / expected - 1).max())


def importance_rows(work: Workload, build: Build, device: Device, rounds: int) -> Iterator[str]:
    """Yield importance against one float32 pass per example."""
    plain, ours = build(), build()
    rows = np.arange(len(work.score))
    contenders: list[Callable[[], np.ndarray]] = [
        lambda: gradients_one_by_one(plain, work.task, work.score, device),
        lambda: gate_gradients(ours, work.task, work.score, rows, device),
    ]
    multiply, multiplied = products(layer_shapes(ours), device.tokens, 2, device)
    single, batched, products_seconds = measure([*contenders, multiply], rounds, device)
    importances = (np.abs(run()).mean(axis=0).ravel() for run in contenders)
    same = f"Spearman {spearmanr(*importances).statistic:.5f}"
    yield row(f"importance, {work.name}/s", len(rows) / single, len(rows) / batched, same)
    rates = multiplied / products_seconds / 1e9, flops(ours, work.score.lengths, 2) / batched / 1e9
    yield row(f"GFLOP/s, importance on {work.name}, baseline: its matrix products alone", *rates)


def pruning_rows(work: Workload, build: Build, device: Device, rounds: int) -> Iterator[str]:
    """Yield masked evaluation against passes over unsorted batches, in this precision and in float32."""
    plain, ours = build(), build()
    rng = np.random.default_rng(0)
    importance = rng.random((ours.gates.layers, ours.gates.heads))
    planned = masks({work.task: importance}, 0.3, [0.3], draws=2, seed=0)
    devices_of = {each.precision: each for each in (device, replace(device, autocast=None))}
    contenders: list[Callable[[], np.ndarray]] = [
        partial(predictions_one_by_one, plain, work.task, work.score, planned, each)
        for each in devices_of.values()
    ]
    contenders.append(lambda: predictions(ours, {work.task: work.score}, planned, device)[work.task])
    multiply, multiplied = products(layer_shapes(ours), device.tokens, 1, device)
    *seconds, our_seconds, products_seconds = measure([*contenders, multiply], rounds, device)
    *rates, our_rate = (len(planned) * len(work.score) / each for each in (*seconds, our_seconds))
    *expected, predicted = (run() for run in contenders)
    for precision, rate, values in zip(devices_of, rates, expected, strict=True):
        same = f"{(predicted == values).mean():.1%} of predictions"
        yield row(f"masked {work.name}/s, baseline in {precision}", rate, our_rate, same)
    total = len(planned) * flops(ours, work.score.lengths, 1)
    peak, reached = multiplied / products_seconds / 1e9, total / our_seconds / 1e9
    yield row(f"GFLOP/s, masked {work.name}, baseline: its matrix products alone", peak, reached)


def ablation_rows(work: Workload, build: Build, device: Device, rounds: int) -> Iterator[str]:
    """Yield ablation of all heads against full passes over unsorted and the same batches, a head a layer."""
    model, rows = build().to(device.name).eval(), np.arange(len(work.score))
    grid = (model.gates.layers, model.gates.heads)
    chosen = np.arange(grid[0]), np.arange(grid[0]) % grid[1]
    closed = np.zeros((grid[0], *grid), dtype=bool)
    closed[np.arange(grid[0]), *chosen] = True
    planned = [Mask("one", None, 0.0, None, heads) for heads in closed]

    def same_batches() -> np.ndarray:
        with device.cast():
            return under_masks(model, work.task, work.score, rows, planned, device).values

    def ours() -> np.ndarray:
        ablated = ablate(model, work.task, work.score, rows, device)
        return ablated.predictions[ABLATION][:, *chosen].T

    contenders: dict[str, Callable[[], np.ndarray]] = {
        "unsorted": lambda: predictions_one_by_one(model, work.task, work.score, planned, device),
        "the same batches": same_batches,
    }
    *seconds, our_seconds = measure([*contenders.values(), ours], rounds, device) / len(rows)
    predicted = ours()
    for (name, run), baseline in zip(contenders.items(), seconds, strict=True):
        rates = len(planned) / baseline, math.prod(grid) / our_seconds
        same = f"{(run() == predicted).mean():.1%} of predictions"
        yield row(f"one head ablated, {work.name}/s, baseline: full passes, {name}", *rates, same)


def atlas_row(work: Workload, build: Build, settings: Training, device: Device, rounds: int) -> str:
    """Return all measures of every head, except cumulative pruning, against a pass of training."""
    model, plain = build().to(device.name).eval(), build()
    examples, n = {work.task: work.score}, min(MEASURED, len(work.score))
    rows = sampled(work.task, len(work.score), n)

    def measures() -> None:
        attention_measures(model, examples, n, set(), device)
        relevance_measures(model, examples, device, n)
        ablate(model, work.task, work.score, rows, device)

    contenders: list[Run] = [lambda: train_bucketed(plain, work.task, work.train, settings, device), measures]
    training, measuring = measure(contenders, rounds, device)
    rates = len(work.train) / training, n / measuring
    return row(f"all measures of heads, {work.name}/s, baseline: a pass of training", *rates)


def lines() -> Iterator[str]:
    """Yield the lines of all tables, each as soon as it is measured with all cores."""
    device = devices.prepare("auto", len(os.sched_getaffinity(0)))
    works, build, settings = workloads(device)
    yield HEADING
    for work in works:
        heads = work is works[0]  # takes long, and texts do not matter
        yield from rows(work, build, settings, device, heads=heads)
    yield from ("", large.HEADING)
    yield from large.rows()
    yield from ("", export.HEADING)
    yield from export.rows(build, works[0].score, ROUNDS)
    yield from ("", machine(device))


def report(file: Path | None = None) -> None:
    """Print the tables line by line; `file` gets them, too, between its markers."""
    if file:
        between(file.read_text(encoding="utf-8"), BEGIN, END, "")  # refused now, not at the end
    installed()
    measured = []
    for line in lines():
        print(line, flush=True)
        measured.append(line)
    if file:
        text = file.read_text(encoding="utf-8")
        file.write_text(between(text, BEGIN, END, "\n" + "\n".join(measured) + "\n"), encoding="utf-8")
