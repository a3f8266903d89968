"""Change of dissociation from plain multi-task training to IAT."""

from collections import defaultdict
from collections.abc import Iterable

import pandas as pd

from headspec.config.values import MEAN
from headspec.statistics.dissociation.resampled import (
    PrunedPredictions,
    ResampledDissociation,
    combine,
    resample_run,
)
from headspec.statistics.intervals import over_seeds_and_examples
from headspec.tables import FLAG, FLOAT, INT, TEXT, Schema

SPECIALIZATION = Schema(
    {"model": TEXT, "mixture": TEXT, "task": TEXT, "n_seeds": INT, "before": FLOAT, "after": FLOAT,
     "difference": FLOAT, "ci_low": FLOAT, "ci_high": FLOAT, "ci_over": TEXT, "at_chance": FLAG,
     "unpruned_at_chance": FLAG},
    keys=3,
)  # fmt: skip
"""Table `specialization`: a row for each mixture and task.
tables/specialization.parquet

before: D after plain training
after: D after IAT
difference: after less before
"""


def specialization(
    evaluations: Iterable[PrunedPredictions],
    before: str,
    fraction: float,
    resamples: int,
    confidence: float,
    seed: int,
) -> pd.DataFrame:
    """Return the table `specialization`: dissociation after IAT, minus dissociation by the method `before`.

    Importance is estimated again in each model: the heads pruned are those that matter after IAT, not those
    that IAT was told to update. Differences are paired over seeds and examples. At chance: any seed of either
    method. Both have the same seeds; only one run's predictions are in memory at a time.
    """
    samples: dict[tuple[str, str], dict[bool, dict[int, ResampledDissociation]]] = defaultdict(
        lambda: {True: {}, False: {}}
    )
    for evaluation in evaluations:
        run = evaluation.run
        sampled = resample_run(evaluation, [fraction], resamples, confidence, seed, permutations=0)
        samples[run.model, run.mixture][run.method == before][run.seed] = sampled.at(0).with_mean()
    rows = []
    for (model, mixture), methods in samples.items():
        seeds = sorted(methods[True])
        old, new = (combine([methods[is_before][s] for s in seeds]) for is_before in (True, False))
        combine([old, new])  # raises if their examples differ
        low, high, over = over_seeds_and_examples(new.d - old.d, new.bootstrap - old.bootstrap, confidence)
        nothing = old.unpruned_at_chance | new.unpruned_at_chance
        for i, task in enumerate([*old.run.tasks, MEAN]):
            rows.append(
                (model, mixture, task, len(seeds), old.mean[i], new.mean[i], new.mean[i] - old.mean[i])
                + (low[i], high[i], over, old.at_chance[i] or new.at_chance[i], nothing[i])
            )
    return pd.DataFrame(rows, columns=list(SPECIALIZATION.columns))
