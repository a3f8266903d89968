"""Benchmark of the stages that run a model, compared with plain ways to compute the same."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from scipy.stats import spearmanr
from torch import nn

from benchmarks.baselines import gradients_one_by_one, predictions_one_by_one, train_padded
from benchmarks.timing import Run, measure, products, row
from benchmarks.workload import Workload
from headspec.atlas.ablation import ABLATION, ablate
from headspec.atlas.attention import attention_measures
from headspec.atlas.relevance import relevance_measures
from headspec.atlas.sample import sampled
from headspec.config.sections.training import Training
from headspec.cost.throughput import no_checkpoint
from headspec.heads.importance import gate_gradients
from headspec.heads.masks import Mask, masks, random_heads
from headspec.heads.pruning import predictions, under_masks
from headspec.heads.ranking import prune_count
from headspec.models.batching import Examples
from headspec.models.multitask import MultiTask
from headspec.training.loop import Setup, train, trainer
from headspec.training.variants.own import Own

HEADING = "| | baseline | headspec | ratio: median (range) | same result |\n|---|---|---|---|---|"
MEASURED = 32  # most examples for all measures of heads


def train_bucketed(work: Workload, model: MultiTask, examples: Examples, settings: Training) -> list[float]:
    """Train by `headspec.training.loop.train`; return the loss of every step."""
    table = train(model, Setup({work.task: examples}, settings, 0, work.device), no_checkpoint())
    return table["loss"].tolist()


def train_heads(work: Workload, model: MultiTask, heads: np.ndarray) -> None:
    """Train one epoch, but move only heads[0] of the `heads` of two tasks, (2, layers, heads)."""
    own_heads = Own({work.task: heads[0], "": heads[1]}, "qkv")
    tasks = {work.task: work.train}
    with trainer(model, Setup(tasks, work.settings, 0, work.device)) as run, own_heads.applied(run):
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

    2 P T (P weights, T tokens) for each of the `kinds` of `benchmarks.timing.products`, and
    4 L d t^2 for the attention of an example of t tokens (L layers, hidden size d), three times that with a
    backward pass. No two layers may share weights.
    """
    matrices = sum(n * m for n, m in layer_shapes(model))
    squared_lengths = (lengths.astype(float) ** 2).sum()
    attention = 4.0 * model.gates.layers * model.encoder.config.hidden_size * squared_lengths
    return float(2.0 * kinds * matrices * lengths.sum() + attention * (3 if kinds > 1 else 1))


def rows(work: Workload, heads: bool = False) -> Iterator[str]:
    """Yield the lines as they are measured; with `heads`, also ablation and measures of heads."""
    ours = work.build()
    yield from training_rows(work, ours)
    yield iat_row(work)

    def build() -> MultiTask:
        model = work.build()
        model.load_state_dict(ours.state_dict())
        return model

    trained = replace(work, build=build)
    yield from importance_rows(trained)
    yield from pruning_rows(trained)
    if heads:
        yield from ablation_rows(trained)
        yield atlas_row(trained)


def training_rows(work: Workload, ours: MultiTask) -> Iterator[str]:
    """Yield training, which leaves `ours` trained, against padded float32 training and its products."""
    plain = work.build()
    batch = round(work.settings.batch_size * work.train.lengths.mean())
    multiply, multiplied = products(layer_shapes(ours), batch, 3, work.device)
    contenders: list[Run] = [
        lambda: train_padded(work, plain, work.padded, work.settings),
        lambda: train_bucketed(work, ours, work.train, work.settings),
        multiply,
    ]
    padding, buckets, products_seconds = measure(contenders, work.rounds)
    rates = len(work.padded) / padding, len(work.train) / buckets
    yield row(f"training, {work.name}/s", *rates, f"losses within {loss_error(work):.1e}")
    rates = multiplied / products_seconds / 1e9, flops(ours, work.train.lengths, 3) / buckets / 1e9
    yield row(f"GFLOP/s, training on {work.name}: its matrix products alone", *rates)


def loss_error(work: Workload, epochs: int = 3) -> float:
    """Return the largest relative difference in loss over `epochs` steps on `check`, without dropout."""
    settings = work.settings.model_copy(update={"epochs": epochs, "batch_size": len(work.check)})
    models = work.build(), work.build()
    for module in (m for model in models for m in model.modules()):
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    expected = np.array(train_padded(work, models[0], work.check, settings))
    losses = np.array(train_bucketed(work, models[1], work.check, settings))
    return float(np.abs(losses / expected - 1).max())


def iat_row(work: Workload) -> str:
    """Return training that moves only the 30 % of heads that a task owns, against training of everything."""
    plain, ours = work.build(), work.build()
    exists, rng = ours.gates.exists, np.random.default_rng(0)
    heads = np.stack([random_heads(exists, prune_count(0.3, exists.size), rng) for _ in range(2)])
    contenders: list[Run] = [
        lambda: train_bucketed(work, plain, work.train, work.settings),
        lambda: train_heads(work, ours, heads),
    ]
    rates = len(work.train) / measure(contenders, work.rounds)
    return row(f"training by IAT, {work.name}/s, baseline: plain training", *rates)


def importance_rows(work: Workload) -> Iterator[str]:
    """Yield importance against one float32 pass per example."""
    plain, ours = work.build(), work.build()
    examples = np.arange(len(work.score))
    contenders: list[Callable[[], np.ndarray]] = [
        lambda: gradients_one_by_one(work, plain),
        lambda: gate_gradients(ours, work.task, work.score, examples, work.device),
    ]
    multiply, multiplied = products(layer_shapes(ours), work.device.tokens, 2, work.device)
    single, batched, products_seconds = measure([*contenders, multiply], work.rounds)
    importances = (np.abs(run()).mean(axis=0).ravel() for run in contenders)
    same = f"Spearman {spearmanr(*importances).statistic:.5f}"
    yield row(f"importance, {work.name}/s", len(examples) / single, len(examples) / batched, same)
    rates = multiplied / products_seconds / 1e9, flops(ours, work.score.lengths, 2) / batched / 1e9
    yield row(f"GFLOP/s, importance on {work.name}: its matrix products alone", *rates)


def pruning_rows(work: Workload) -> Iterator[str]:
    """Yield masked evaluation against passes over unsorted batches, in this precision and in float32."""
    plain, ours = work.build(), work.build()
    importance = np.random.default_rng(0).random((ours.gates.layers, ours.gates.heads))
    planned = masks({work.task: importance}, 0.3, [0.3], draws=2, seed=0)
    devices = {each.precision: each for each in (work.device, replace(work.device, autocast=None))}
    baselines = [partial(predictions_one_by_one, work, plain, planned, each) for each in devices.values()]

    def masked() -> np.ndarray:
        return predictions(ours, {work.task: work.score}, planned, work.device)[work.task]

    multiply, multiplied = products(layer_shapes(ours), work.device.tokens, 1, work.device)
    *seconds, our_seconds, products_seconds = measure([*baselines, masked, multiply], work.rounds)
    total, predicted = len(planned) * len(work.score), masked()
    for precision, baseline, run in zip(devices, seconds, baselines, strict=True):
        same = f"{(run() == predicted).mean():.1%} of predictions"
        rates = total / baseline, total / our_seconds
        yield row(f"masked {work.name}/s, baseline in {precision}", *rates, same)
    operations = len(planned) * flops(ours, work.score.lengths, 1)
    rates = multiplied / products_seconds / 1e9, operations / our_seconds / 1e9
    yield row(f"GFLOP/s, masked {work.name}: its matrix products alone", *rates)


def ablation_rows(work: Workload) -> Iterator[str]:
    """Yield ablation of all heads against full passes over unsorted and the same batches, a head a layer."""
    model, examples = work.build().to(work.device.name).eval(), np.arange(len(work.score))
    grid = (model.gates.layers, model.gates.heads)
    chosen = np.arange(grid[0]), np.arange(grid[0]) % grid[1]
    closed = np.zeros((grid[0], *grid), dtype=bool)
    closed[np.arange(grid[0]), *chosen] = True
    planned = [Mask("one", None, 0.0, None, heads) for heads in closed]

    def same_batches() -> np.ndarray:
        with work.device.cast():
            return under_masks(model, work.task, work.score, examples, planned, work.device).values

    def ours() -> np.ndarray:
        ablated = ablate(model, work.task, work.score, examples, work.device)
        return ablated.predictions[ABLATION][:, *chosen].T

    contenders: dict[str, Callable[[], np.ndarray]] = {
        "unsorted": lambda: predictions_one_by_one(work, model, planned, work.device),
        "the same batches": same_batches,
    }
    *seconds, our_seconds = measure([*contenders.values(), ours], work.rounds) / len(examples)
    predicted = ours()
    for (name, run), baseline in zip(contenders.items(), seconds, strict=True):
        rates = len(planned) / baseline, math.prod(grid) / our_seconds
        same = f"{(run() == predicted).mean():.1%} of predictions"
        yield row(f"one head ablated, {work.name}/s, baseline: full passes, {name}", *rates, same)


def atlas_row(work: Workload) -> str:
    """Return all measures of every head, except cumulative pruning, against a pass of training."""
    model, plain = work.build().to(work.device.name).eval(), work.build()
    examples, n = {work.task: work.score}, min(MEASURED, len(work.score))

    def measures() -> None:
        attention_measures(model, examples, n, set(), work.device)
        relevance_measures(model, examples, work.device, n)
        ablate(model, work.task, work.score, sampled(work.task, len(work.score), n), work.device)

    contenders: list[Run] = [lambda: train_bucketed(work, plain, work.train, work.settings), measures]
    training, measuring = measure(contenders, work.rounds)
    rates = len(work.train) / training, n / measuring
    return row(f"all measures of heads, {work.name}/s, baseline: a pass of training", *rates)
