"""Contenders against the clock: what `bench` measures with, and how it says what it found."""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import numpy as np
import torch

from headspec.devices import Device

HEADING = "| | baseline | headspec | ratio: median (range) | same result |\n|---|---|---|---|---|"

Run = Callable[[], object]


def multiplication(device: Device, size: int = 2048) -> tuple[Run, float]:
    """Products of square matrices in the precision of `device`, and how many operations they are."""
    dtype = getattr(torch, device.autocast) if device.autocast else torch.float32
    a, b = torch.randn(2, size, size, device=device.name).to(dtype)
    repeats = 500 if device.name == "cuda" else 10

    def run() -> None:
        for _ in range(repeats):
            torch.mm(a, b)

    return run, repeats * 2.0 * size**3


def measure(contenders: list[Run], rounds: int, device: Device) -> np.ndarray:
    """Wall seconds, (contenders, rounds), after a round to warm up; every other round in reverse."""

    def settle() -> None:
        if device.name == "cuda":
            torch.cuda.synchronize()

    seconds = np.empty((len(contenders), rounds + 1))
    for number in range(rounds + 1):
        for i in list(range(len(contenders)))[:: -1 if number % 2 else 1]:
            settle()
            begun = time.perf_counter()
            contenders[i]()
            settle()
            seconds[i, number] = time.perf_counter() - begun
    return seconds[:, 1:]


def row(what: str, baseline: np.ndarray, ours: np.ndarray, same: str = "") -> str:
    """A line of the table from rates, (rounds,), measured in the same rounds."""
    ratio = ours / baseline
    span = f"{_figures(np.median(ratio))} ({_figures(ratio.min())} to {_figures(ratio.max())})"
    return f"| {what} | {_figures(np.median(baseline))} | {_figures(np.median(ours))} | {span} | {same} |"


def _figures(value: float) -> str:
    """At least three figures, without an exponent: ``1,234``, ``56.7``, ``0.890``."""
    return f"{value:,.{max(0, 2 - int(np.floor(np.log10(value))))}f}"


def machine(device: Device) -> str:
    """What the figures were measured on, in a sentence."""
    threads = torch.get_num_threads()
    where = f"{_processor()}, {threads} thread{'s' if threads > 1 else ''}"
    if device.name == "cuda":
        where = f"{torch.cuda.get_device_name()} ({where})"
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("torch", "transformers"))
    return f"{where}; {device.precision}; Python {platform.python_version()}, {versions}."


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()
