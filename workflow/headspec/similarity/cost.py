"""Passes of the stages that compare tasks by models."""

from __future__ import annotations

from headspec.models.passes import Load, StageJob, stage
from headspec.similarity.cosines import BLOCK


@stage({"prune": "similarity.samples"}, copies=3)
def text_embedding(job: StageJob) -> list[Load]:
    return _compared(job, "prune")


@stage(
    {"train": "similarity.samples"},
    copies=5,
    # blocks of vectors are read, and stacked in double precision
    held=lambda study: 4 * 4 * BLOCK * len(study.mixtures.pairs),
)
def sensitivity(job: StageJob) -> list[Load]:
    return _compared(job, "train")


@stage({"train": "similarity.samples", "prune": "similarity.samples"}, copies=7)
def affinity(job: StageJob) -> list[Load]:
    """Half of a task's samples make gradients, at each task's own encoder if its name says so.

    The losses of the other half are computed before and after the step on each task; Grad-TAG makes gradients
    of both halves.
    """
    measure, k = job.wildcards["measure"], len(job.layout.compared)
    if measure == "grad-tag":
        return _compared(job, "train")
    times = {"train": k if measure == "lookahead-single" else 1, "prune": k + 1}
    return [
        load._replace(examples=n * load.examples / 2)
        for kind, n in times.items()
        for load in _compared(job, kind)
    ]


@stage({"prune": "similarity.max_sentences"}, copies=4)
def representations(job: StageJob) -> list[Load]:
    """Count sentences as examples; stimuli are not read while a study is planned.

    Weights are in memory once more, as a model is loaded beside the last one.
    """
    if job.wildcards["texts"] != "sentences":
        return []
    return [load._replace(examples=job.study.similarity.max_sentences) for load in _compared(job, "prune")]


def _compared(job: StageJob, kind: str) -> list[Load]:
    samples, n = job.study.similarity.samples, job.n_train
    return [Load(kind, task, min(samples, n[task])) for task in job.layout.compared if task in n]
