"""Resources that jobs request (GPUs, threads, memory and time), and which jobs start first."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from headspec.config.runs import Run
from headspec.cost import memory
from headspec.cost.stages import stage_cost
from headspec.pipeline.jobs.job import Job
from headspec.pipeline.layout import Layout
from headspec.text_values import named

if TYPE_CHECKING:
    from headspec.cost.workload import Extent

Request = Callable[[Any, int], int]  # called by Snakemake with the wildcards of a job and its attempt

#: minimum FLOP/s of a job on a GPU and on a CPU thread: a tenth of what BERT-base reaches on old hardware.
#: Small models do not keep a GPU busy, but their jobs are short
SLOWEST = {"gpu": 1e12, "thread": 1e10}
LEAST = 30  # minutes, for the start of a job and its data
COMPARED = 9  # priority of jobs that compare models


class Requests:
    """Resources, threads and priorities of the rules of a study, as functions of wildcards.

    `gpu` and `threads` are for a job that runs a model. `timed` tells whether requested times are used, as
    only a cluster's scheduler does.
    """

    def __init__(self, layout: Layout, gpu: int, threads: int, timed: bool) -> None:
        self.layout, self.study = layout, layout.study
        self.gpu, self.threads, self.timed = gpu, threads, timed

    @functools.cached_property
    def extent(self) -> Extent:
        """The size of the study, read on first use."""
        from headspec.cost import workload  # loads transformers, which planning may not need

        return workload.study_extent(self.study, self.layout.tasks_read)

    def resources(self, stage: str) -> dict[str, Any]:
        """Return resources of a rule that runs a model."""
        shares = stage_cost(stage).gpus
        gpus = {"one": self.gpu, "all": self.training_gpus, "layers": self.gpus}[shares]
        return {
            "gpu": gpus,
            "mem_mb": self.memory(stage),
            "microbatches": microbatches,
            "runtime": self.runtime(stage),
        }

    def memory(self, stage: str) -> Request:
        """Return a function for the memory of a job in MB, which grows with failed attempts."""
        spread = stage_cost(stage).gpus == "all"

        @functools.cache
        def process(model: str, trains: str) -> int:
            return memory.megabytes(self.study, model, stage, bool(self.gpu), trains)

        def function(wildcards: Any, attempt: int) -> int:
            trains = self.layout.study.trains(wildcards.get("method", ""))
            processes = max(1, self.training_gpus(wildcards)) if spread else 1
            return attempt * processes * process(wildcards.model, trains)

        return function

    def runtime(self, stage: str) -> Request:
        """Return a function that gives a job's run time in minutes, which grows with each failed attempt.

        If requested times are not used, it gives the fixed hours of the job's stage.
        """

        def function(wildcards: Any, attempt: int) -> int:
            if not self.timed:
                return 60 * stage_cost(stage).hours
            return attempt * self.minutes(stage, dict(wildcards.items()))

        return function

    def minutes(self, stage: str, wildcards: dict[str, str]) -> int:
        """Return the minutes of a job and its start at the slowest speed; if unknown, those of its stage."""
        from headspec.cost.graph import job_operations

        if (count := job_operations(self.extent, stage, wildcards)) is None:
            return 60 * stage_cost(stage).hours
        rate = self.gpu * SLOWEST["gpu"] or self.threads * SLOWEST["thread"]
        return LEAST + int(count / rate / 60)

    def gpus(self, wildcards: Any) -> int:
        """Return the GPUs of a job that runs a model: those for a prompted model's layers, else `gpu`."""
        job = Job(self.layout, wildcards)
        return self.gpu * (job.model.gpus if job.trains() == "nothing" else 1)

    def training_gpus(self, wildcards: Any) -> int:
        """Return the GPUs of a job that trains: those of its model, or `gpu` if it trains no encoder."""
        job = Job(self.layout, wildcards)
        branch_at_trunk = wildcards.get("delta") == named(self.study.iat.reserve)
        if job.trains() == "classifiers" or branch_at_trunk:
            return self.gpu
        return self.gpu * job.model.gpus

    def training_threads(self, wildcards: Any) -> int:
        """Return the threads of a job that trains, the same for each GPU."""
        return self.threads * max(1, self.training_gpus(wildcards))

    def larger_mixtures_first(self, wildcards: Any) -> int:
        """Return the priority of a run's jobs: its number of tasks, below that of data, tokens and features.

        Jobs with more tasks (train, importance, prune) take longer, and would run alone at the end if started
        last. Where models are compared, the longest chain starts with single tasks.
        """
        if wildcards.method == "single" and self.study.similarity.compares_models:
            return COMPARED
        return len(self.layout.study.tasks_by_mixture.get(wildcards.mixture, ()))


def microbatches(wildcards: Any, attempt: int) -> int:
    """Return microbatches per batch, twice as many after each failed attempt; results do not change."""
    return 1 << (attempt - 1)


def processes(runs: Iterable[Run]) -> int:
    """Return threads for statistics of `runs`: one, and one per 40 pairs of model and mixture; at most 16.

    These need less than 8 GB.
    """
    return min(16, 1 + len({(run.model, run.mixture) for run in runs}) // 40)
