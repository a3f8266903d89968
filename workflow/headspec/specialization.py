"""Whether heads dissociate more after IAT than after plain multi-task training."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from headspec.comparison import MEAN, over_seeds
from headspec.dissociation import Evaluation, Sampled, combine, sample
from headspec.resampling import interval
from headspec.seeds import derive
from headspec.tables import FLAG, FLOAT, INT, TEXT, Schema

# dissociation before and after IAT; task "mean" is the mean over the mixture's tasks
SPECIALIZATION = Schema(
    {"model": TEXT, "mixture": TEXT, "task": TEXT, "n_seeds": INT, "before": FLOAT, "after": FLOAT,
     "difference": FLOAT, "ci_low": FLOAT, "ci_high": FLOAT, "seed_low": FLOAT, "seed_high": FLOAT,
     "floor": FLAG},
    keys=3,
)  # fmt: skip


def specialization(
    evaluations: Iterable[Evaluation], before: str, resamples: int, confidence: float, seed: int
) -> pd.DataFrame:
    """The table `specialization`: dissociation after one method of training, less that after another.

    The heads that are pruned are scored anew in every model: those that matter after IAT, not those
    that IAT was told to move. ci_low, ci_high: `dissociation.combine` of the differences, the same
    seeds and examples drawn for both methods. seed_low, seed_high: Student's t over the seeds'
    differences (see `over_seeds`); with few seeds only these are wide enough for a statement about
    other seeds. floor: that of any seed of either method.

    Parameters
    ----------
    evaluations : runs of two methods, each with the same seeds
        May be a generator: one run's predictions are held at a time.
    before : the method that the other one is compared with
    """
    found: dict[tuple[str, str], dict[bool, dict[int, Sampled]]] = defaultdict(lambda: {True: {}, False: {}})
    tasks: dict[tuple[str, str], Sequence[str]] = {}
    for evaluation in evaluations:
        run = evaluation.run
        own = sample(evaluation, resamples, confidence, seed, permutations=0, examples_of=before)
        found[run.model, run.mixture][run.method == before][run.seed] = _with_mean(own)
        tasks[run.model, run.mixture] = (*run.tasks, MEAN)
    rows = []
    for (model, mixture), methods in found.items():
        seeds = sorted(methods[True])
        then, now = ([methods[is_before][s] for s in seeds] for is_before in (True, False))
        share = derive(seed, "specialization", model, mixture, "seeds")  # the same seeds drawn for both
        old, new = (combine(runs, np.random.default_rng(share)) for runs in (then, now))
        low, high = interval(new.bootstrap - old.bootstrap, confidence)
        differences = np.stack([b.d - a.d for a, b in zip(then, now, strict=True)])  # (S, tasks)
        for i, task in enumerate(tasks[model, mixture]):
            rows.append(
                (model, mixture, task, len(seeds), old.d[i], new.d[i], new.d[i] - old.d[i], low[i], high[i])
                + (*over_seeds(differences[:, i], confidence), old.floor[i] or new.floor[i])
            )
    return pd.DataFrame(rows, columns=list(SPECIALIZATION.columns))


def _with_mean(sampled: Sampled) -> Sampled:
    """The mean over the tasks as one more of them; its floor is that of any."""
    return replace(
        sampled,
        d=np.append(sampled.d, sampled.d.mean()),
        bootstrap=np.column_stack([sampled.bootstrap, sampled.bootstrap.mean(axis=1)]),
        floor=np.append(sampled.floor, sampled.floor.any()),
    )
