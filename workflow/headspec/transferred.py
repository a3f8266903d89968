"""Few-shot scores of all encoders, their means over seeds and draws, and what multi-task training changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from headspec.intervals import over_seeds_and_draws
from headspec.resampling import Floats
from headspec.runs import NO_MIXTURE, Run
from headspec.tables import FLOAT, INT, TEXT, Schema

# of all; mixture: what the encoder learnt, for method single a task, for pretrained "none"
TRANSFER = Schema(
    {"model": TEXT, "task": TEXT, "mixture": TEXT, "method": TEXT, "tuning": TEXT, "samples": INT,
     "seed": INT, "draw": INT, "metric": TEXT, "value": FLOAT, "chance": FLOAT},
    keys=9,
)  # fmt: skip
# means over seeds and draws, and their difference to method tuned; source: what the encoder learnt,
# for method single a task of the mixture, or "mean" of them; ci_over, of both intervals: "draws" or "seeds
# and draws"
TRANSFER_SUMMARY = Schema(
    {"model": TEXT, "task": TEXT, "mixture": TEXT, "method": TEXT, "source": TEXT, "tuning": TEXT,
     "samples": INT, "metric": TEXT, "n_seeds": INT, "n_draws": INT, "value": FLOAT, "ci_low": FLOAT,
     "ci_high": FLOAT, "difference": FLOAT, "difference_low": FLOAT, "difference_high": FLOAT,
     "ci_over": TEXT, "chance": FLOAT},
    keys=8,
)  # fmt: skip

MEAN = "mean"


def scores(runs: Iterable[tuple[Run, str, pd.DataFrame]]) -> pd.DataFrame:
    """The table `transfer`, of a run, a task, and its table 'transferred' each."""
    frames = [
        frame.assign(model=run.model, task=task, mixture=run.mixture, method=run.method, seed=run.seed)
        for run, task, frame in runs
    ]
    return pd.concat(frames, ignore_index=True)


def summary(scores: pd.DataFrame, mixtures: Mapping[str, Sequence[str]], confidence: float) -> pd.DataFrame:
    """The table `transfer_summary`: of each mixture, the encoders that it is compared with.

    These are the pretrained one, those of the mixture's tasks alone and their mean, and all that were
    trained on the mixture. Differences are to its plain multi-task training (`tuned`) with the same
    seed and draw.

    Intervals are over seeds and draws, or with one or two seeds over draws, as ci_over says (see
    `headspec.intervals.over_seeds_and_draws`): how far the mean would move with others. They do not say
    how far with another validation set, which all fits share, and draws of a small training set have
    samples in common, and so differ too little.

    Parameters
    ----------
    scores : table 'transfer'
    mixtures : mixture: its tasks; none where only the pretrained encoder is transferred
    """
    rows = []
    n_seeds, n_draws = scores["seed"].nunique(), scores["draw"].nunique()

    keys = ["model", "task", "tuning", "samples", "metric"]
    for key, part in scores.groupby(keys, sort=False):
        model, task, tuning, samples, metric = key
        grids = {
            of: one.pivot(index="seed", columns="draw", values="value").to_numpy()
            for of, one in part.groupby(["method", "mixture"], sort=False)
        }
        for mixture, tasks in (mixtures or {NO_MIXTURE: ()}).items():
            plain = grids.get(("tuned", mixture))
            for method, source, grid in _compared(grids, mixture, tasks):
                low, high, over = over_seeds_and_draws(grid, confidence)
                own: tuple[Any, ...] = (np.nan,) * 3
                if plain is not None and method != "tuned":
                    own = ((grid - plain).mean(), *over_seeds_and_draws(grid - plain, confidence)[:2])
                rows.append(
                    (model, task, mixture, method, source, tuning, samples, metric, n_seeds, n_draws)
                    + (grid.mean(), low, high, *own, over, part["chance"].iloc[0])
                )
    return pd.DataFrame(rows, columns=list(TRANSFER_SUMMARY.columns))


def _compared(grids: dict, mixture: str, tasks: Sequence[str]) -> Iterator[tuple[str, str, Floats]]:
    """Method, what its encoder learnt, and values (seeds, draws) of all that one mixture is compared with."""
    alone = {task: grids["single", task] for task in tasks if ("single", task) in grids}
    for (method, source), grid in grids.items():
        if source == (NO_MIXTURE if method == "pretrained" else mixture) and method != "single":
            yield method, source, grid
    for task, grid in alone.items():
        yield "single", task, grid
    if alone:
        yield "single", MEAN, np.mean(list(alone.values()), axis=0)
