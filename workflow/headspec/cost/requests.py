"""What jobs request of the machine or the cluster: GPUs, threads, memory and time, and which start first.

Methods with a parameter `wildcards` are functions of Snakemake's resources, threads and priorities; methods
that return a `Request` build one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from headspec.config.runs import Run
from headspec.config.study import Study
from headspec.cost import memory
from headspec.pipeline.layout import Layout

Request = Callable[[Any, int], int]  # called by Snakemake with the wildcards of a job and its attempt

#: FLOP/s that a job reaches at least, on a GPU and on a CPU thread: a tenth of what BERT-base reaches on an
#: old one. Small models keep no GPU busy, but their jobs are short
SLOWEST = {"gpu": 1e12, "thread": 1e10}
LEAST = 30  # minutes, for the start of a job and its data
COMPARED = 9  # priority of what compares models


class Runtimes:
    """Minutes that jobs request. The study's data are read when the first job is asked for."""

    def __init__(self, study: Study) -> None:
        self.study = study

    @functools.cached_property
    def operations(self) -> dict[str, float]:
        """Output of a job: its floating-point operations, as far as tasks and models can be read here."""
        from headspec.cost import operations, workload  # load transformers, which planning can do without

        return operations.of_jobs(workload.read(self.study))

    def minutes(self, output: str, gpus: int, threads: int, unknown: int) -> int:
        """Minutes that the job of `output` requests; `unknown` if its operations are."""
        if (operations := self.operations.get(output)) is None:
            return unknown
        rate = gpus * SLOWEST["gpu"] or threads * SLOWEST["thread"]
        return LEAST + int(operations / rate / 60)


class Requests:
    """Resources of the rules of a study.

    Parameters
    ----------
    gpu, threads : of a job that runs a model
    timed : whether someone reads the time that jobs request: only the scheduler of a cluster does
    """

    def __init__(self, layout: Layout, gpu: int, threads: int, timed: bool) -> None:
        self.layout, self.study = layout, layout.study
        self.gpu, self.threads, self.timed = gpu, threads, timed
        self.runtimes = Runtimes(self.study)

    def memory(self, stage: str, gpus: Callable[[Any], int] = lambda wildcards: 1) -> Request:
        """Memory in MB of a job that runs a model, more after each failed attempt."""

        @functools.cache
        def of_model(model: str) -> int:
            return memory.megabytes(self.study, model, stage, bool(self.gpu))

        def function(wildcards: Any, attempt: int) -> int:
            return attempt * max(1, gpus(wildcards)) * of_model(wildcards.model)

        return function

    def runtime(self, unknown: int, *output: str) -> Request:
        """Minutes of a job, more after each failed attempt.

        Parameters
        ----------
        unknown : minutes if the operations of the job cannot be counted here
        output : parts of the path of one of its outputs
        """

        def function(wildcards: Any, attempt: int) -> int:
            if not self.timed:
                return unknown
            path = self.layout.result(*output).format(**wildcards)
            return attempt * self.runtimes.minutes(path, self.gpu, self.threads, unknown)

        return function

    def training_gpus(self, wildcards: Any) -> int:
        """GPUs of a job that trains: those of its model, but one if it trains no encoder."""
        branch_at_trunk = wildcards.get("delta") == f"{self.study.iat.reserve:g}"
        if wildcards.method == "frozen" or branch_at_trunk:
            return self.gpu
        return self.gpu * self.study.models[wildcards.model].gpus

    def training_threads(self, wildcards: Any) -> int:
        """Threads of a job that trains: those of any job for each GPU."""
        return self.threads * max(1, self.training_gpus(wildcards))

    def by_tasks(self, wildcards: Any) -> int:
        """Priority of a run's jobs: the number of its tasks.

        Chains of jobs (train, importance, prune) of more tasks take longer; started last, they would end
        alone. The longest chain begins with single tasks, where models are compared (train, vectors or
        squared gradients, similarity); so do those jobs, with `COMPARED`. Data, tokens and features come
        before all.
        """
        if wildcards.method == "single" and self.study.similarity.compares_models:
            return COMPARED
        return len(self.layout.mixtures.get(wildcards.mixture, ()))


def microbatches(wildcards: Any, attempt: int) -> int:
    """Microbatches per batch, more after each failed attempt; results stay the same."""
    return 2 ** (attempt - 1)


def processes(runs: Iterable[Run]) -> int:
    """Threads of the statistics of `runs`: one for every 40 models and mixtures, of which each takes
    seconds, up to 16, with which they stay below 8 GB.
    """
    return min(16, 1 + len({(run.model, run.mixture) for run in runs}) // 40)
