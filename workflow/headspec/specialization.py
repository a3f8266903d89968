"""Whether heads dissociate more after IAT than after plain multi-task training."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import pandas as pd

from headspec.comparison import MEAN
from headspec.intervals import over_seeds_and_examples
from headspec.resampled import Evaluation, Sampled, combine, sample
from headspec.tables import FLAG, FLOAT, INT, TEXT, Schema

# dissociation before and after IAT; task "mean" is the mean over the mixture's tasks
SPECIALIZATION = Schema(
    {"model": TEXT, "mixture": TEXT, "task": TEXT, "n_seeds": INT, "before": FLOAT, "after": FLOAT,
     "difference": FLOAT, "ci_low": FLOAT, "ci_high": FLOAT, "ci_over": TEXT, "floor": FLAG},
    keys=3,
)  # fmt: skip


def specialization(
    evaluations: Iterable[Evaluation],
    before: str,
    fraction: float,
    resamples: int,
    confidence: float,
    seed: int,
) -> pd.DataFrame:
    """The table `specialization`: dissociation after one method of training, less that after another.

    The heads that are pruned are scored anew in every model: those that matter after IAT, not those
    that IAT was told to move. Differences are paired over seeds and examples; their interval is that of
    `headspec.intervals`. floor: that of any seed of either method.

    Parameters
    ----------
    evaluations : runs of two methods, each with the same seeds
        May be a generator: one run's predictions are held at a time.
    before : the method that the other one is compared with
    fraction : of heads that is pruned
    """
    found: dict[tuple[str, str], dict[bool, dict[int, Sampled]]] = defaultdict(lambda: {True: {}, False: {}})
    for evaluation in evaluations:
        run = evaluation.run
        own = sample(evaluation, [fraction], resamples, confidence, seed, permutations=0)
        found[run.model, run.mixture][run.method == before][run.seed] = own.at(0).with_mean()
    rows = []
    for (model, mixture), methods in found.items():
        seeds = sorted(methods[True])
        old, new = (combine([methods[is_before][s] for s in seeds]) for is_before in (True, False))
        combine([old, new])  # the same examples
        low, high, over = over_seeds_and_examples(new.d - old.d, new.bootstrap - old.bootstrap, confidence)
        for i, task in enumerate([*old.run.tasks, MEAN]):
            rows.append(
                (model, mixture, task, len(seeds), old.mean[i], new.mean[i], new.mean[i] - old.mean[i])
                + (low[i], high[i], over, old.floor[i] or new.floor[i])
            )
    return pd.DataFrame(rows, columns=list(SPECIALIZATION.columns))
