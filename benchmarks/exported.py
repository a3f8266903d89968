"""Benchmark of exported models in onnxruntime: size and speed by the number of heads that are kept."""

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch

from benchmarks.timing import Run, figures, measure
from benchmarks.workload import Workload
from headspec.heads.masks import random_heads
from headspec.heads.ranking import prune_count
from headspec.models.batching import Batch, Examples
from headspec.models.export.folder import opened_onnx, write_onnx
from headspec.models.export.slicing import remove_heads
from headspec.models.multitask import MultiTask

HEADING = (
    "| exported model | MB | sentences/s, one by one | attention's share of the time "
    "| texts of 128 tokens/s, 16 at once | attention's share of the time |\n|---|---|---|---|---|---|"
)
KEPT = (1.0, 0.5, 0.2, 0.0)  # of all heads
TEXTS, TOKENS = 16, 128


def rows(work: Workload) -> list[str]:
    """Return a line for each number of random heads kept, in float32.

    Times are CPU seconds of one thread, hardly affected by other programs. Attention's share is the time
    saved if no head is left. Sentences run one by one; batches are made of their tokens.
    """
    alone = [work.score.batch(np.array([i])) for i in range(len(work.score))]
    together = [whole_batch(work.score)]
    labels, runs = [], list[Run]()
    with tempfile.TemporaryDirectory() as folder:
        for fraction in KEPT:
            path = Path(folder) / f"{fraction}.onnx"
            heads = _export(work.build(), fraction, work.score, path)
            labels.append(f"| {heads} | {path.stat().st_size / 1e6:.1f}")
            session = opened_onnx(path, threads=1)
            runs += [partial(_through, session, alone), partial(_through, session, together)]
        seconds = measure(runs, work.rounds, time.process_time).reshape(len(KEPT), 2, work.rounds)
    rates = np.median(np.array([[len(alone)], [TEXTS]]) / seconds, axis=2)
    shares = np.median(1 - seconds[-1] / seconds, axis=2)
    return [
        f"{label} | {figures(one)} | {one_share:.0%} | {figures(batch)} | {batch_share:.0%} |"
        for label, (one, batch), (one_share, batch_share) in zip(labels, rates, shares, strict=True)
    ]


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
    model.gates.values = None
    model.encoder = remove_heads(model.encoder, exists & ~kept)
    write_onnx(model, sentences, path)
    return f"{n} of {exists.size} heads"


def _through(session: Callable[[Batch], object], batches: list[Batch]) -> None:
    for batch in batches:
        session(batch)
