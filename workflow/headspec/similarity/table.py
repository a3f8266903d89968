"""Table of task similarities: every pair of tasks by every measure, over seeds and subjects."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd
from scipy.special import stdtrit

from headspec.similarity.measures import Traits
from headspec.tables import FLOAT, TEXT, Schema

SIMILARITY = Schema(
    {"model": TEXT, "measure": TEXT, "task_a": TEXT, "task_b": TEXT, "subject": TEXT, "similarity": FLOAT,
     "between_seeds": FLOAT, "ci_low": FLOAT, "ci_high": FLOAT},
    keys=5,
)  # fmt: skip
"""Table `similarity`: a row for each model, measure, task_a, task_b and subject.
tables/similarity.parquet

subject: of `cnm`; null for the mean over subjects, which alone has an interval, and other measures
"""

PAIR = ["measure", "task_a", "task_b", "subject"]


class Measure(NamedTuple):
    """A measure, a function of the traits of two tasks, and the trait that it compares."""

    of: str
    function: Callable[[Traits, Traits], float]


def by_subject(
    paradigms: Mapping[str, str], read: Mapping[str, Mapping[str | None, Mapping[str, Any]]]
) -> dict[str | None, dict[str, Traits]]:
    """Return the traits of every task by subject, those that have none under None.

    `read` has every trait but the paradigm, by subject and task (`headspec.similarity.traits`).
    """
    found: dict[str | None, dict[str, Any]] = {None: {}}
    of_config = {"paradigm": {None: paradigms}}
    for trait, subjects in (of_config | dict(read)).items():
        for subject, by_task in subjects.items():
            for task, value in by_task.items():
                found.setdefault(subject, {}).setdefault(task, {})[trait] = value
    return found


def pairwise(
    subject: str | None, traits: Mapping[str, Traits], tasks: Sequence[str], measures: Mapping[str, Measure]
) -> pd.DataFrame:
    """Similarity of every pair of `tasks` by those of `measures` whose trait is among the `traits`.

    Columns measure, task_a, task_b, subject, similarity.
    """
    rows = [
        (name, a, b, subject, measure.function(traits[a], traits[b]))
        for name, measure in measures.items()
        for a, b in itertools.combinations(tasks, 2)
        if measure.of in traits[a]
    ]
    return pd.DataFrame(rows, columns=[*PAIR, "similarity"])


def combined(
    model: str, seeds: Sequence[pd.DataFrame], confidence: float, seedless: Sequence[str]
) -> pd.DataFrame:
    """Return the table `similarity`: means over seeds and, for CNM, over subjects; nan if any seed has nan.

    `seeds` are from `pairwise`: tasks are compared within a seed, where training draws the same random
    numbers. Intervals are over subjects (Student's t), each the mean over seeds. `seedless` measures are the
    same for every seed.
    """
    pairs = pd.concat(seeds, ignore_index=True).groupby(PAIR, sort=False, dropna=False)["similarity"]
    frame = pairs.agg(similarity=lambda values: values.mean(skipna=False), between_seeds="std").reset_index()
    frame.loc[frame["measure"].isin(seedless), "between_seeds"] = float("nan")
    subjects = frame[frame["subject"].notna()].groupby(PAIR[:3], sort=False)["similarity"]
    means = subjects.agg(["mean", "sem", "count"]).reset_index()
    margin = means["sem"] * stdtrit(means["count"] - 1, (1 + confidence) / 2)
    over_subjects = means[PAIR[:3]].assign(
        similarity=means["mean"], ci_low=means["mean"] - margin, ci_high=means["mean"] + margin
    )
    frame = pd.concat([frame, over_subjects], ignore_index=True).assign(model=model)
    return frame.reindex(columns=list(SIMILARITY.columns))
