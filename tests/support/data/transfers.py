"""Made-up tables of few-shot transfer."""

import itertools
from typing import Any

import numpy as np
import pandas as pd

from headspec.config.runs import Run
from headspec.statistics.transfer import transfer_scores, transfer_summary

METHODS = ["pretrained", "single", "tuned", "iat"]


def transfer_table(
    mixtures: dict[str, list[str]], methods: list[str], seeds: int = 2, draws: int = 5, noise: float = 0.03
) -> pd.DataFrame:
    """A table 'transfer': metrics rise with the samples; `iat` is 0.05 above `tuned`."""
    rng = np.random.default_rng(0)
    gains = {"tuned": 0.05, "iat": 0.1}
    alone = dict.fromkeys(itertools.chain(*mixtures.values()))
    sources = [("single", task) for task in alone if "single" in methods]
    sources += [("pretrained", "none")] * ("pretrained" in methods)
    sources += [(m, mixture) for mixture in mixtures for m in methods if m not in ("single", "pretrained")]
    runs = []
    shift = {(seed, draw): rng.normal(0, noise) for seed in range(seeds) for draw in range(draws)}
    for (method, mixture), seed in itertools.product(sources, range(seeds)):
        rows = [
            (tuning, n, draw, 0.5 + 0.08 * np.log10(n) + gains.get(method, 0) + shift[seed, draw])
            for tuning, n, draw in itertools.product(["full", "linear"], [4, 16, 32, 100], range(draws))
        ]
        frame = pd.DataFrame(rows, columns=["tuning", "samples", "draw", "value"])
        frame = frame.assign(metric="accuracy", chance=0.5)
        runs.append((Run(model="m", mixture=mixture, tasks=(), method=method, seed=seed), "t", frame))
    return transfer_scores(runs)


def summarised(mixtures: dict[str, list[str]], methods: list[str], **more: Any) -> pd.DataFrame:
    return transfer_summary(transfer_table(mixtures, methods, **more), mixtures, 0.95)
