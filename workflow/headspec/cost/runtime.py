"""Time that jobs of a cluster request, by the operations that the plan counts for them."""

from __future__ import annotations

import functools

from headspec.config.study import Study

#: FLOP/s that a job reaches at least, on a GPU and on a CPU thread: a tenth of what BERT-base reaches on an
#: old one. Small models keep no GPU busy, but their jobs are short
SLOWEST = {"gpu": 1e12, "thread": 1e10}
LEAST = 30  # minutes, for the start of a job and its data


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
