"""Few-shot scores of all encoders, their means over seeds and draws, and what multi-task training changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from headspec.resampling import Floats, bootstrap_counts, interval
from headspec.runs import NO_MIXTURE, Run
from headspec.seeds import derive
from headspec.tables import FLOAT, INT, TEXT, Schema

# of all; mixture: what the encoder learnt, for method single a task, for pretrained "none"
TRANSFER = Schema(
    {"model": TEXT, "task": TEXT, "mixture": TEXT, "method": TEXT, "tuning": TEXT, "samples": INT,
     "seed": INT, "draw": INT, "metric": TEXT, "value": FLOAT, "chance": FLOAT},
    keys=9,
)  # fmt: skip
# means over seeds and draws, and their difference to method tuned; source: what the encoder learnt,
# for method single a task of the mixture, or "mean" of them
TRANSFER_SUMMARY = Schema(
    {"model": TEXT, "task": TEXT, "mixture": TEXT, "method": TEXT, "source": TEXT, "tuning": TEXT,
     "samples": INT, "metric": TEXT, "n_seeds": INT, "n_draws": INT, "value": FLOAT, "ci_low": FLOAT,
     "ci_high": FLOAT, "difference": FLOAT, "difference_low": FLOAT, "difference_high": FLOAT,
     "chance": FLOAT},
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


def summary(
    scores: pd.DataFrame,
    mixtures: Mapping[str, Sequence[str]],
    resamples: int,
    confidence: float,
    seed: int,
) -> pd.DataFrame:
    """The table `transfer_summary`: of each mixture, the encoders that it is compared with.

    These are the pretrained one, those of the mixture's tasks alone and their mean, and all that were
    trained on the mixture. Differences are to its plain multi-task training (`tuned`) with the same
    seed and draw.

    Intervals are percentiles of a bootstrap that draws seeds and draws anew, each with replacement and
    independently of the other (Owen 2007), because every seed meets every draw. They say how far the mean
    would move with other seeds and other samples of the same training set. They do not say how far with
    another validation set, which all fits share; draws of a small training set have samples in
    common, and so differ too little; and of two or three seeds, or five draws, a bootstrap
    understates the spread. One seed leaves the draws alone.

    Parameters
    ----------
    scores : table 'transfer'
    mixtures : mixture: its tasks; none where only the pretrained encoder is transferred
    """
    rows = []
    n_seeds, n_draws = scores["seed"].nunique(), scores["draw"].nunique()
    rng = np.random.default_rng(derive(seed, "transfer intervals"))
    # (resamples, seeds) and (resamples, draws): the parts of a resample's mean
    by_seed, by_draw = (bootstrap_counts(n, resamples, rng) / n for n in (n_seeds, n_draws))

    def mean_and_interval(grid: Floats | None) -> tuple[float, float, float]:
        if grid is None:
            return np.nan, np.nan, np.nan
        resampled = np.einsum("rs,sd,rd->r", by_seed, grid, by_draw, optimize=True)
        low, high = interval(resampled, confidence)
        return float(grid.mean()), float(low), float(high)

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
                difference = None if plain is None or method == "tuned" else grid - plain
                rows.append(
                    (model, task, mixture, method, source, tuning, samples, metric, n_seeds, n_draws)
                    + mean_and_interval(grid)
                    + mean_and_interval(difference)
                    + (part["chance"].iloc[0],)
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
