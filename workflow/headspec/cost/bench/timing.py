"""Timing of contenders, and the lines of the benchmark's table."""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import numpy as np
import torch

from headspec.models.devices import Device

HEADING = "| | baseline | headspec | ratio: median (range) | same result |\n|---|---|---|---|---|"

Run = Callable[[], object]


def products(shapes: list[tuple[int, int]], tokens: int, kinds: int, device: Device) -> tuple[Run, float]:
    """Return a run that only multiplies matrices of linear layers, and its number of operations.

    `shapes` are (outputs, inputs) of the layers, `tokens` the rows of their inputs; `kinds` is 1 for outputs,
    2 with gradients of inputs, 3 with gradients of weights, too.
    """
    dtype = getattr(torch, device.autocast) if device.autocast else torch.float32

    def random(*size: int) -> torch.Tensor:
        return torch.randn(size, device=device.name).to(dtype)

    matrices = {(n, m): (random(n, m), random(tokens, m), random(tokens, n)) for n, m in set(shapes)}
    repeats = 50 if device.name == "cuda" else 3

    def run() -> None:
        for _ in range(repeats):
            for shape in shapes:
                weight, states, gradient = matrices[shape]
                torch.mm(states, weight.T)
                if kinds > 1:
                    torch.mm(gradient, weight)
                if kinds > 2:
                    torch.mm(gradient.T, states)

    return run, repeats * kinds * 2.0 * tokens * sum(n * m for n, m in shapes)


def measure(
    contenders: list[Run], rounds: int, device: Device, clock: Callable[[], float] = time.perf_counter
) -> np.ndarray:
    """Return seconds, (contenders, rounds), after a warm-up round; every other round is in reverse."""

    def settle() -> None:
        if device.name == "cuda":
            torch.cuda.synchronize()

    seconds = np.empty((len(contenders), rounds + 1))
    for turn in range(rounds + 1):
        for i in list(range(len(contenders)))[:: -1 if turn % 2 else 1]:
            settle()
            begun = clock()
            contenders[i]()
            settle()
            seconds[i, turn] = clock() - begun
    return seconds[:, 1:]


def row(label: str, baseline: np.ndarray, ours: np.ndarray, same: str = "") -> str:
    """Return a line of the table from rates, (rounds,), measured in the same rounds."""
    ratio = ours / baseline
    span = f"{figures(np.median(ratio))} ({figures(ratio.min())} to {figures(ratio.max())})"
    return f"| {label} | {figures(np.median(baseline))} | {figures(np.median(ours))} | {span} | {same} |"


def figures(value: float) -> str:
    """Return at least three significant digits, without an exponent: ``1,234``, ``56.7``, ``0.890``."""
    return f"{value:,.{max(0, 2 - int(np.floor(np.log10(value))))}f}"


def machine(device: Device) -> str:
    """Return the processor, precision and versions behind the table, in a sentence."""
    threads = torch.get_num_threads()
    where = f"{_processor()}, {threads} thread{'s' if threads > 1 else ''}"
    if device.name == "cuda":
        where = f"{torch.cuda.get_device_name()} ({where})"
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("torch", "transformers"))
    return f"{where}; {device.precision}; Python {platform.python_version()}, {versions}."


def _processor() -> str:
    try:
        match = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        match = None
    return match[1] if match else platform.processor() or platform.machine()
