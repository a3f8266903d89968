"""Benchmark of `remove_heads` on a BERT-base: ``python -m benchmarks.pruned [PAGE]`` prints its table.

With a page, it writes the table between the page's markers.
"""

import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
from transformers import BertConfig, BertModel, PreTrainedModel

import headspec
from benchmarks import timing
from headspec.config.reference import between
from headspec.heads.masks import random_heads
from headspec.models import devices

BEGIN, END = "<!-- removed: written by python -m benchmarks.pruned -->", "<!-- end of removed -->"
HEADING = "| BERT-base | MB | one text of 16 tokens, ms | 4 texts of 128 tokens, ms |\n|---|---|---|---|"
REMOVED = (0.3, 0.6, 0.9)  # of all heads, at random
BATCHES = ((1, 16), (4, 128))
ROUNDS = 7


def models() -> Iterator[tuple[str, PreTrainedModel]]:
    """Yield random models of the size of BERT-base: whole, without heads, and with half of the layers."""
    whole = BertModel(BertConfig()).eval()
    exists = headspec.HeadGates(whole).exists
    yield f"{exists.sum()} heads, {len(exists)} layers", whole
    for fraction in REMOVED:
        removed = random_heads(exists, round(fraction * exists.size), np.random.default_rng(0))
        yield f"{fraction:.0%} of heads removed", headspec.remove_heads(whole, removed)
    yield "half of the layers removed", BertModel(BertConfig(num_hidden_layers=len(exists) // 2)).eval()


@torch.inference_mode()
def lines() -> Iterator[str]:
    """Yield the lines of the table: CPU time of one thread, hardly affected by other programs."""
    device = devices.prepare("fp32", threads=1)
    with torch.inference_mode(False):
        contenders = dict(models())
    ids = [torch.randint(1000, 30000, shape) for shape in BATCHES]
    runs: list[timing.Run] = [partial(model, each) for model in contenders.values() for each in ids]
    seconds = timing.measure(runs, ROUNDS, time.process_time).reshape(len(contenders), len(ids), ROUNDS)
    faster = np.median(seconds[0] / seconds, axis=2)
    yield HEADING
    for (label, model), own, ratios in zip(
        contenders.items(), np.median(seconds, axis=2), faster, strict=True
    ):
        size = sum(p.numel() * p.element_size() for p in model.parameters())
        cells = [f"{1000 * t:,.0f} ({ratio:.2f}×)" for t, ratio in zip(own, ratios, strict=True)]
        yield f"| {label} | {size / 1e6:.0f} | {' | '.join(cells)} |"
    yield ""
    yield f"Medians of {ROUNDS} interleaved rounds, in CPU time. {timing.machine(device)}"


def main(page: Path | None = None) -> None:
    """Print the table, and write it between the markers of `page`."""
    text = page.read_text(encoding="utf-8") if page else BEGIN + END
    between(text, BEGIN, END, "")  # refused now, not at the end
    measured = "\n".join(lines())
    print(measured)
    if page:
        page.write_text(between(text, BEGIN, END, f"\n{measured}\n"), encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
