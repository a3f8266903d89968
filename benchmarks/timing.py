"""Timing of contenders, and lines of the benchmark's tables."""

import platform
import re
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import numpy as np
import torch
from torch.utils import benchmark

from headspec.models.devices import Device

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
        for shape in shapes * repeats:
            weight, states, gradient = matrices[shape]
            torch.mm(states, weight.T)
            if kinds > 1:
                torch.mm(gradient, weight)
            if kinds > 2:
                torch.mm(gradient.T, states)

    return run, repeats * kinds * 2.0 * tokens * sum(n * m for n, m in shapes)


def measure(contenders: list[Run], rounds: int, clock: Callable[[], float] = benchmark.timer) -> np.ndarray:
    """Return seconds, (contenders, rounds), after a warm-up round.

    Contenders take turns, in reverse in every other round, so that slow spells of the machine affect all.
    """
    seconds = np.empty((len(contenders), rounds + 1))
    for turn in range(rounds + 1):
        for i in list(range(len(contenders)))[:: -1 if turn % 2 else 1]:
            begun = clock()
            contenders[i]()
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
    """Return the processor, precision and versions behind the tables, in a sentence."""
    listed = Path("/proc/cpuinfo")
    match = re.search(r"^model name\s*: (.*)$", listed.read_text() if listed.exists() else "", re.MULTILINE)
    threads = torch.get_num_threads()
    where = f"{match[1] if match else platform.machine()}, {threads} thread{'s' if threads > 1 else ''}"
    if device.name == "cuda":
        where = f"{torch.cuda.get_device_name()} ({where})"
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("torch", "transformers"))
    return f"{where}; {device.precision}; Python {platform.python_version()}, {versions}."
