"""Costs of all stages that run a model, in passes through it.

For each stage, the function of its name lists the passes of a job.
"""

from collections.abc import Iterator

import numpy as np

from headspec.config.measures import heads as head_measures
from headspec.config.measures.similarity import MEASURES
from headspec.config.pruning_methods import PRUNING_METHODS, PruningMethod
from headspec.config.runs import PRETRAINED
from headspec.config.values import ZERO
from headspec.config.variants import RETRAININGS
from headspec.cost.passes import STAGES, TRAINING, VALIDATION, Load, Stage, StageJob, stage
from headspec.errors import HeadspecError, listing
from headspec.heads.masks import masks
from headspec.similarity.measures import BLOCK
from headspec.tasks.registry import kind


@stage({"importance": "importance.samples"}, copies=3, hours=4, gpus="layers")
def importance(job: StageJob) -> Iterator[Load]:
    for task in job.tasks:
        yield Load("importance", task, min(job.study.importance.samples, job.n_train[task]))


@stage(
    {"prune": f"pruning.draw_examples or {VALIDATION}"},
    copies=3, hours=8, gpus="layers", writes=True, under_masks=True,
)  # fmt: skip
def prune(job: StageJob) -> Iterator[Load]:
    pruning = job.study.pruning
    shape = pruning.model_dump(include={"fraction", "fractions", "heads", "draws", "bottom"})
    planned = masks({task: np.zeros((1, 1009)) for task in job.tasks}, seed=0, **shape)
    draws = sum(mask.draw is not None for mask in planned)
    for task in job.tasks:
        n = job.n_validation[task]
        drawn = min(pruning.draw_examples or n, n)
        others = n * (pruning.ablation != ZERO)  # whose vectors replace those of pruned heads
        yield Load("prune", task, (len(planned) - draws) * n + draws * drawn + others)


@stage(
    {"prune": f"pruning.draws or {VALIDATION}"},
    copies=3, hours=8, gpus="layers", writes=True, under_masks=True,
)  # fmt: skip
def listed(job: StageJob) -> list[Load]:
    lists = job.study.models[job.wildcards["model"]].heads
    others = job.study.pruning.ablation != ZERO
    return job.validated(len(lists) * (3 + job.study.list_draws) + others)


@stage({"prune": TRAINING}, copies=3, hours=4, vectors="task", keeps="vectors")
def features(job: StageJob) -> Iterator[Load]:
    yield Load("prune", job.wildcards["task"], job.n_train[job.wildcards["task"]])


@stage(
    dict.fromkeys(("train", "prune", "importance"), TRAINING),
    copies=5, hours=24, adapted=3, batch="training", gpus="all", vectors="mixture", keeps="state",
)  # fmt: skip
def train(job: StageJob) -> Iterator[Load]:
    """Yield the training of a run.

    Frozen runs count only examples that are encoded again: classifiers cost almost nothing.
    """
    if job.layout.study.trains(job.method) != "classifiers":
        yield from job.trained(1.0)
        return
    drawn = job.study.models[job.wildcards["model"]].weights != PRETRAINED
    for task in job.tasks:
        encoded = drawn or not kind(job.study.tasks[task]).pooled
        yield Load("prune", task, encoded * job.study.training.frozen.epochs * job.n_train[task])


@stage(
    {"train": TRAINING, "importance": "importance.samples"},
    copies=7, hours=8, adapted=3, batch="training", gpus="all", keeps="state",
)  # fmt: skip
def branch(job: StageJob) -> Iterator[Load]:
    yield from job.trained(job.study.iat.reserve - float(job.wildcards["delta"]))
    yield from importance(job)


@stage(
    {"train": TRAINING, "importance": "iat.rescorings"},
    copies=7, hours=12, adapted=3, batch="training", gpus="all",
)  # fmt: skip
def retrain(job: StageJob) -> Iterator[Load]:
    yield from job.trained(job.variant.delta or 0.0)
    if job.variant.retraining and RETRAININGS[job.variant.retraining].module == "rescored":
        for load in importance(job):
            yield load._replace(examples=job.study.iat.rescorings * load.examples)


@stage({"prune": VALIDATION}, copies=3, hours=1, gpus="layers", writes=True, under_masks=True)
def evaluate(job: StageJob) -> Iterator[Load]:
    for task in job.tasks:
        yield Load("prune", task, (1 + len(job.study.tasks[task].further)) * job.n_validation[task])


@stage({"train": "transfer.steps", "prune": VALIDATION}, copies=6, hours=8, batch="transfer")
def transfer(job: StageJob) -> Iterator[Load]:
    task, transfer = job.wildcards["task"], job.study.transfer
    full = "full" in transfer.tuning
    fits = transfer.draws * len(transfer.samples)
    yield Load("prune", task, job.n_validation[task] * (1 + fits * full))
    if full:
        trained = sum(transfer.steps * min(transfer.batch_size, n) for n in transfer.samples)
        yield Load("train", task, transfer.draws * trained)


@stage({}, copies=3, hours=4, gpus="layers")
def predict(job: StageJob) -> tuple[()]:
    """Return nothing: planning does not read test sets."""
    return ()


@stage({"train": "gates.epochs"}, copies=5, hours=12, batch="training", gpus="all")
def learn_gates(job: StageJob) -> list[Load]:
    gates = job.study.gates
    return _gated(job, _before(job) + gates.learning * gates.epochs)


@stage(
    {"train": "gates.epochs, or name fewer gates.kept, gates.pruning_methods or atlas.rankings",
     "importance": "gates.rescorings", "prune": VALIDATION},
    copies=5, hours=12, batch="training", gpus="all", writes=True, under_masks=True,
)  # fmt: skip
def pruned_run(job: StageJob) -> Iterator[Load]:
    """Yield further training, without the steps of learn_gates, importance if stepwise, and an evaluation."""
    gates, method = job.study.gates, _method(job)
    left = gates.epochs * (1 - gates.learning) if method.open_ended else _before(job) + gates.epochs
    yield from _gated(job, left)
    if method.chosen == "stepwise":
        for load in importance(job):
            yield load._replace(examples=gates.rescorings * load.examples)
    yield from job.validated()


def _gated(job: StageJob, epochs: float) -> list[Load]:
    """Return training with gates, whose gradients pass through the encoder even if it is frozen."""
    loads = job.trained(epochs / job.study.training.epochs)
    return [load._replace(purpose="train") for load in loads]


def _before(job: StageJob) -> int:
    """Return the epochs of training first, if a pruning method does not start from the trained run."""
    return 0 if _method(job).start == "trained" else job.study.training.epochs


def _method(job: StageJob) -> PruningMethod:
    return PRUNING_METHODS[job.wildcards["pruning_method"]]


#: cost of ablating each head in turn, relative to full passes: earlier layers are computed once
RESUMED = 0.53


@stage({"prune": "atlas.sentences"}, copies=3, hours=4, gpus="layers")
def attended(job: StageJob) -> list[Load]:
    """Return loads that count sentences for roles as examples of the run's first task."""
    return [Load("prune", job.tasks[0], job.study.atlas.sentences)]


@stage({"prune": "atlas.examples"}, copies=3, hours=4, gpus="layers")
def attention(job: StageJob) -> list[Load]:
    return _measured(job, "prune", 1)


@stage({"importance": "atlas.examples"}, copies=3, hours=4, gpus="layers")
def relevance(job: StageJob) -> list[Load]:
    return _measured(job, "importance", 2)


@stage(
    {"importance": "atlas.examples", "prune": "atlas.examples"},
    copies=3, hours=8, gpus="layers", writes=True,
)  # fmt: skip
def measured(job: StageJob) -> list[Load]:
    """Return loads that assume, for a plugin's measure of unknown passes, the cost of importance."""
    if head_measures.MEASURES[job.wildcards["measure"]].per_head:
        return _measured(job, "prune", 1 + job.heads(job.wildcards["model"]))
    return _measured(job, "importance", 1)


@stage({"importance": "atlas.rankings"}, copies=3, hours=8, gpus="layers")
def behaviour(job: StageJob) -> list[Load]:
    """Return loads that count each sequence as an example, and again for each head if answers are read.

    Two passes through it cost as much as one of importance, and nothing is written.
    """
    measure, heads = head_measures.MEASURES[job.wildcards["measure"]], job.heads(job.wildcards["model"])
    passes = 1 + heads * (measure.reads == "answers")
    return [Load("importance", task, head_measures.SEQUENCES * passes) for task in job.tasks]


@stage(
    {"prune": "atlas.examples, or leave mean_ablation out of atlas.rankings"},
    copies=3, hours=8, gpus="layers", writes=True,
)  # fmt: skip
def ablation(job: StageJob) -> list[Load]:
    heads = job.heads(job.wildcards["model"])
    return _measured(job, "prune", 1 + len(job.study.atlas.ablations) * heads * RESUMED)


@stage(
    {"prune": "atlas.fractions, atlas.rankings or atlas.examples", "importance": "atlas.fractions"},
    copies=3, hours=8, gpus="layers", writes=True, under_masks=True,
)  # fmt: skip
def cumulative(job: StageJob) -> Iterator[Load]:
    atlas = job.study.atlas
    levels = len({*atlas.fractions, job.study.pruning.fraction} - {1.0})
    ends = 1 + atlas.bottom
    others = len(atlas.rankings) * (len(job.tasks) - 1)
    for_all = "importance" in atlas.rankings and len(job.tasks) > 1
    drawn = atlas.draws * (1 + len(atlas.same_layers) + (for_all and "importance" in atlas.same_layers))
    pruned = 2 + levels * (ends * (len(atlas.rankings) + for_all) + drawn) + others
    yield from _measured(job, "prune", pruned)
    yield from _measured(job, "importance", ends * levels * ("rescored" in atlas.rankings))


def _measured(job: StageJob, kind: str, passes: float) -> list[Load]:
    return job.validated(passes, job.study.atlas.examples, kind)


@stage({"prune": "similarity.samples"}, copies=3, hours=4)
def text_embedding(job: StageJob) -> list[Load]:
    return _compared(job, "prune")


@stage(
    {"train": "similarity.samples", "prune": "similarity.samples"},
    copies=7,
    hours=8,
    # blocks of vectors are read, and stacked in double precision
    held=lambda study: 4 * 4 * BLOCK * len(study.mixtures.pairs),
)
def sensitivity(job: StageJob) -> list[Load]:
    """Return gradients, and losses before and after the steps of look-ahead."""
    passes = MEASURES[job.wildcards["measure"]].passes(len(job.layout.compared))
    return [
        load._replace(examples=number * load.examples)
        for kind, number in zip(("train", "prune"), passes, strict=True)
        if number
        for load in _compared(job, kind)
    ]


@stage({"prune": "similarity.max_sentences"}, copies=4, hours=4)
def representations(job: StageJob) -> list[Load]:
    """Return loads that count sentences as examples; planning does not read stimuli.

    Memory holds the weights once more, since a model is loaded beside the previous one.
    """
    if job.wildcards["texts"] != "sentences":
        return []
    return [load._replace(examples=job.study.similarity.max_sentences) for load in _compared(job, "prune")]


def _compared(job: StageJob, kind: str) -> list[Load]:
    samples, n = job.study.similarity.samples, job.n_train
    return [Load(kind, task, min(samples, n[task])) for task in job.layout.compared if task in n]


@stage({"prune": "probes.sentences"}, copies=3, hours=4, also=("probe_pretrained", "probe_random"))
def probe(job: StageJob) -> list[Load]:
    task, sentences = job.wildcards["task"], job.study.probes.sentences
    return [Load("prune", task, min(sentences, n[task])) for n in (job.n_train, job.n_validation)]


def stage_cost(stage: str) -> Stage:
    """Return the costs of a stage; raise HeadspecError if it has none."""
    if stage not in STAGES:
        raise HeadspecError(
            f"stage {stage!r}: expected one of {listing(STAGES)}, or a new one in cost/stages.py"
        )
    return STAGES[stage]
