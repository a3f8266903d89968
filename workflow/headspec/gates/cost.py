"""Costs, in passes, of learning gates and of training with fewer heads."""

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
    """Yield further training, minus the steps that learn_gates has done, and an evaluation."""
    gates, method = job.study.gates, _method(job)
    left = gates.epochs * (1 - gates.learning) if method.open_ended else _before(job) + gates.epochs
    yield from _gated(job, left)
    if method.chosen == "stepwise":
        for load in importance(job):
            yield load._replace(examples=gates.rescorings * load.examples)
    yield from job.validated()


def _gated(job: StageJob, epochs: float) -> list[Load]:
    """Return training with gates, whose gradients go through the encoder even where it is frozen."""
    return job.trained(epochs / job.study.training.epochs)


def _before(job: StageJob) -> int:
    """Return the epochs that replace the run's own training if a pruning method starts from other weights."""
    return 0 if _method(job).start == "trained" else job.study.training.epochs


def _method(job: StageJob) -> PruningMethod:
    return PRUNING_METHODS[job.wildcards["pruning_method"]]
