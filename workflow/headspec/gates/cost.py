"""Passes of learning gates, and of training with a number of heads."""

from __future__ import annotations

from collections.abc import Iterator

from headspec.config.pruning_methods import PRUNING_METHODS, PruningMethod
from headspec.heads.cost import importance
from headspec.models.passes import VALIDATION, Load, StageJob, stage


@stage({"train": "gates.epochs"}, copies=5, batch="training", gpus="all")
def learn_gates(job: StageJob) -> list[Load]:
    gates = job.study.gates
    return _gated(job, _before(job) + gates.learning * gates.epochs)


@stage(
    {"train": "gates.epochs, or name fewer gates.kept, gates.pruning_methods or atlas.rankings",
     "importance": "gates.rescorings", "prune": VALIDATION},
    copies=5, batch="training", gpus="all", writes=True, under_masks=True,
)  # fmt: skip
def pruned_run(job: StageJob) -> Iterator[Load]:
    """Further training, less the steps that learn_gates has done, and an evaluation."""
    gates, method = job.study.gates, _method(job)
    left = gates.epochs * (1 - gates.learning) if method.open_ended else _before(job) + gates.epochs
    yield from _gated(job, left)
    if method.chosen == "stepwise":
        for load in importance(job):
            yield load._replace(examples=gates.rescorings * load.examples)
    yield from job.validated()


def _gated(job: StageJob, epochs: float) -> list[Load]:
    """Training with gates, whose gradients go through the encoder, also where it is frozen."""
    return job.trained(epochs / job.study.training.epochs)


def _before(job: StageJob) -> int:
    """Epochs in place of the run's own training, for a pruning method that starts from other weights."""
    return 0 if _method(job).start == "trained" else job.study.training.epochs


def _method(job: StageJob) -> PruningMethod:
    return PRUNING_METHODS[job.wildcards["pruning_method"]]
