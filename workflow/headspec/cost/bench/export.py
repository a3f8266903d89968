"""Benchmark of exported models in onnxruntime: size and speed by the number of heads that are kept."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch

from headspec.cost.bench.texts import Build
from headspec.cost.bench.timing import Run, figures, measure
from headspec.heads.masks import random_heads
from headspec.heads.ranking import prune_count
from headspec.models.batching import Batch, Examples
from headspec.models.devices import Device
from headspec.models.export import onnx_file
from headspec.models.export.slicing import remove_heads
from headspec.models.multitask import MultiTask

HEADING = (
    "| exported model | MB | sentences/s, one by one | attention's share of the time "
    "| texts of 128 tokens/s, 16 at once | attention's share of the time |\n|---|---|---|---|---|---|"
)
LEFT = (1.0, 0.5, 0.2, 0.0)  # of all heads
TEXTS, TOKENS = 16, 128


def rows(build: Build, sentences: Examples, rounds: int) -> Iterator[str]:
    """Yield a line for each number of random heads kept in the model of `build`, in float32.

    Times are CPU seconds of one thread, hardly affected by other programs. Attention's share is the time
    saved if no head is left. `sentences` run one by one; batches are made of their tokens.
    """
    alone = [sentences.batch(np.array([i])) for i in range(len(sentences))]
    together = [whole_batch(sentences)]
    labels, runs = [], list[Run]()
    with tempfile.TemporaryDirectory() as folder:
        for fraction in LEFT:
            path = Path(folder) / f"{fraction}.onnx"
            labels.append(f"{_export(build(), fraction, sentences, path)} | {path.stat().st_size / 1e6:.1f}")
            run = onnx_file.opened(path, threads=1)
            runs += [partial(_through, run, alone), partial(_through, run, together)]
        seconds = measure(runs, rounds, Device("cpu", None), time.process_time).reshape(len(LEFT), 2, rounds)
    rates = np.array([[len(alone)], [TEXTS]]) / seconds
    shares = 1 - seconds[-1] / seconds  # of each round
    for label, *cells in zip(labels, np.median(rates, axis=2), np.median(shares, axis=2), strict=True):
        numbers = [f"{figures(rate)} | {share:.0%}" for rate, share in zip(*cells, strict=True)]
        yield f"| {label} | {' | '.join(numbers)} |"


def whole_batch(sentences: Examples) -> Batch:
    """Return a batch without padding from the tokens of `sentences` in turn."""
    ids = torch.from_numpy(np.resize(np.concatenate(sentences.ids), (TEXTS, TOKENS)).astype(np.int64))
    kinds = torch.zeros_like(ids) if sentences.token_types else None
    return Batch(ids, torch.ones_like(ids), kinds, labels=ids[:, 0], rows=np.arange(TEXTS))


def _export(model: MultiTask, fraction: float, sentences: Examples, path: Path) -> str:
    """Write `model` with a fraction of its heads; return how many these are, in words."""
    exists = model.gates.exists
    n = prune_count(fraction, exists.size)
    kept = random_heads(exists, n, np.random.default_rng(0))
    model.gates.remove()
    model.encoder = remove_heads(model.encoder, exists & ~kept)
    onnx_file.write(model, sentences, path)
    return f"{n} of {exists.size} heads"


def _through(run: Callable[[Batch], object], batches: list[Batch]) -> None:
    for batch in batches:
        run(batch)
