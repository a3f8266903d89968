"""Costs, in passes, of importance and pruning."""

from collections.abc import Iterator

import numpy as np

from headspec.heads.masks import masks
from headspec.models.passes import VALIDATION, Load, StageJob, stage


@stage({"importance": "importance.samples"}, copies=3, gpus="layers")
def importance(job: StageJob) -> Iterator[Load]:
    for task in job.tasks:
        yield Load("importance", task, min(job.study.importance.samples, job.n_train[task]))


@stage(
    {"prune": f"pruning.draw_examples or {VALIDATION}"},
    copies=3, gpus="layers", writes=True, under_masks=True,
)  # fmt: skip
def prune(job: StageJob) -> Iterator[Load]:
    pruning = job.study.pruning
    shape = pruning.model_dump(include={"fraction", "fractions", "heads", "draws", "bottom"})
    planned = masks({task: np.zeros((1, 1009)) for task in job.tasks}, seed=0, **shape)
    draws = sum(mask.draw is not None for mask in planned)
    for task in job.tasks:
        n = job.n_validation[task]
        drawn = min(pruning.draw_examples or n, n)
        yield Load("prune", task, (len(planned) - draws) * n + draws * drawn)


@stage(
    {"prune": f"pruning.draws or {VALIDATION}"},
    copies=3, gpus="layers", writes=True, under_masks=True,
)  # fmt: skip
def listed(job: StageJob) -> list[Load]:
    lists = job.study.models[job.wildcards["model"]].heads
    return job.validated(len(lists) * (3 + job.study.list_draws))
