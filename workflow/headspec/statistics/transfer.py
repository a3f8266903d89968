"""Few-shot scores, and their means over seeds and draws, compared with multi-task training."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from headspec.config.runs import NO_MIXTURE, Run
from headspec.config.values import MEAN
from headspec.statistics.intervals import over_seeds_and_draws
from headspec.statistics.resampling import Floats
from headspec.tables import FLOAT, INT, TEXT, Schema

TRANSFER = Schema(
    {"model": TEXT, "task": TEXT, "mixture": TEXT, "method": TEXT, "tuning": TEXT, "samples": INT,
     "seed": INT, "draw": INT, "metric": TEXT, "value": FLOAT, "chance": FLOAT},
    keys=9,
    about={
        "mixture": "what the encoder learnt; `none`: `pretrained`",
        "method": "method that trained the encoder: `pretrained`, `single`, `tuned`, `iat`, a control",
    },
)  # fmt: skip
TRANSFER_SUMMARY = Schema(
    {"model": TEXT, "task": TEXT, "mixture": TEXT, "method": TEXT, "source": TEXT, "tuning": TEXT,
     "samples": INT, "metric": TEXT, "n_seeds": INT, "n_draws": INT, "value": FLOAT, "ci_low": FLOAT,
     "ci_high": FLOAT, "difference": FLOAT, "difference_low": FLOAT, "difference_high": FLOAT,
     "ci_over": TEXT, "chance": FLOAT},
    keys=8,
    about={
        "method": "method that trained the encoder, as in `transfer`",
        "source": "what the encoder learnt: the mixture, one of its tasks, their `mean`, or `none`",
        "n_draws": "number of draws",
        "difference": "value minus `tuned`, paired by seed and draw",
        "ci_over": "of both intervals",
    },
)  # fmt: skip


def transfer_scores(runs: Iterable[tuple[Run, str, pd.DataFrame]]) -> pd.DataFrame:
    """Return the table `transfer` from runs, tasks, and their tables 'transferred'."""
    frames = [
        frame.assign(model=run.model, task=task, mixture=run.mixture, method=run.method, seed=run.seed)
        for run, task, frame in runs
    ]
    return pd.concat(frames, ignore_index=True)


def transfer_summary(
    scores: pd.DataFrame, mixtures: Mapping[str, Sequence[str]], confidence: float
) -> pd.DataFrame:
    """Return the table `transfer_summary` from 'transfer': the encoders compared for each mixture.

    The encoders are the pretrained one, those trained on one task of the mixture and their mean, and all that
    were trained on the mixture; without mixtures, only the pretrained one. Differences from plain multi-task
    training on the mixture (`tuned`) are paired by seed and draw. Intervals do not cover the validation set,
    which all fits share; draws from a small training set share examples, so they vary too little.
    """
    table = []
    n_seeds, n_draws = scores["seed"].nunique(), scores["draw"].nunique()
    keys = ["model", "task", "tuning", "samples", "metric"]
    for key, fits in scores.groupby(keys, sort=False):
        model, task, tuning, samples, metric = key
        grids = {
            encoder: rows.pivot(index="seed", columns="draw", values="value").to_numpy()
            for encoder, rows in fits.groupby(["method", "mixture"], sort=False)
        }
        for mixture, tasks in (mixtures or {NO_MIXTURE: ()}).items():
            plain = grids.get(("tuned", mixture))
            for method, source, grid in _compared(grids, mixture, tasks):
                low, high, over = over_seeds_and_draws(grid, confidence)
                difference: tuple[object, ...] = (np.nan,) * 3
                if plain is not None and method != "tuned":
                    difference = ((grid - plain).mean(), *over_seeds_and_draws(grid - plain, confidence)[:2])
                table.append(
                    (model, task, mixture, method, source, tuning, samples, metric, n_seeds, n_draws)
                    + (grid.mean(), low, high, *difference, over, fits["chance"].iloc[0])
                )
    return pd.DataFrame(table, columns=list(TRANSFER_SUMMARY.columns))


def _compared(
    grids: Mapping[Any, Floats], mixture: str, tasks: Sequence[str]
) -> Iterator[tuple[str, str, Floats]]:
    """Yield method, source, and values (seeds, draws) of each encoder compared for a mixture."""
    alone = {task: grids["single", task] for task in tasks if ("single", task) in grids}
    for (method, source), grid in grids.items():
        if source == (NO_MIXTURE if method == "pretrained" else mixture) and method != "single":
            yield method, source, grid
    for task, grid in alone.items():
        yield "single", task, grid
    if alone:
        yield "single", MEAN, np.mean(list(alone.values()), axis=0)
