"""Costs, in passes, of the stages that train, transfer and evaluate."""

from collections.abc import Iterator

from headspec.config.runs import PRETRAINED
from headspec.config.variants import KINDS
from headspec.heads.cost import importance
from headspec.models.passes import TRAINING, VALIDATION, Load, StageJob, stage
from headspec.tasks.registry import kind


@stage({"prune": TRAINING}, copies=3, vectors="task", keeps="vectors")
def features(job: StageJob) -> Iterator[Load]:
    yield Load("prune", job.wildcards["task"], job.n_train[job.wildcards["task"]])


@stage(
    dict.fromkeys(("train", "prune", "importance"), TRAINING),
    copies=5, adapted=3, batch="training", gpus="all", vectors="mixture", keeps="state",
)  # fmt: skip
def train(job: StageJob) -> Iterator[Load]:
    """Yield training; with adapters, without gradients of weights, a step costs what importance does.

    Frozen runs count only examples that are encoded again: classifiers cost almost nothing.
    """
    trains = job.layout.trains(job.method)
    if trains != "classifiers":
        for load in job.trained(1.0):
            yield load._replace(kind="importance") if trains == "adapters" else load
        return
    drawn = job.study.models[job.wildcards["model"]].weights != PRETRAINED
    for task in job.tasks:
        encoded = drawn or not kind(job.study.tasks[task]).pooled
        yield Load("prune", task, encoded * job.study.training.frozen.epochs * job.n_train[task])


@stage(
    {"train": TRAINING, "importance": "importance.samples"},
    copies=7, batch="training", gpus="all", keeps="state",
)  # fmt: skip
def branch(job: StageJob) -> Iterator[Load]:
    yield from job.trained(job.study.iat.reserve - float(job.wildcards["delta"]))
    yield from importance(job)


@stage({"train": TRAINING, "importance": "iat.rescorings"}, copies=7, batch="training", gpus="all")
def retrain(job: StageJob) -> Iterator[Load]:
    yield from job.trained(job.variant.delta or 0.0)
    if job.variant.heads and KINDS[job.variant.heads].module == "rescored":
        for load in importance(job):
            yield load._replace(examples=job.study.iat.rescorings * load.examples)


@stage({"prune": VALIDATION}, copies=3, gpus="layers", writes=True, under_masks=True)
def evaluate(job: StageJob) -> Iterator[Load]:
    for task in job.tasks:
        yield Load("prune", task, (1 + len(job.study.tasks[task].further)) * job.n_validation[task])


@stage({"train": "transfer.steps", "prune": VALIDATION}, copies=6, batch="transfer")
def transfer(job: StageJob) -> Iterator[Load]:
    task, transfer = job.wildcards["task"], job.study.transfer
    full = "full" in transfer.tuning
    fits = transfer.draws * len(transfer.samples)
    yield Load("prune", task, job.n_validation[task] * (1 + fits * full))
    if full:
        trained = sum(transfer.steps * min(transfer.batch_size, n) for n in transfer.samples)
        yield Load("train", task, transfer.draws * trained)


@stage({}, copies=3, gpus="layers")
def predict(job: StageJob) -> tuple[()]:
    """Return nothing: test sets are not read while a study is planned."""
    return ()
