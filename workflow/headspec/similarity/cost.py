"""Passes of the stages that compare tasks by models."""

from headspec.config.measures.similarity import MEASURES
from headspec.models.passes import Load, StageJob, stage
from headspec.similarity.cosines import BLOCK


@stage({"prune": "similarity.samples"}, copies=3)
def text_embedding(job: StageJob) -> list[Load]:
    return _compared(job, "prune")


@stage(
    {"train": "similarity.samples", "prune": "similarity.samples"},
    copies=7,
    # blocks of vectors are read, and stacked in double precision
    held=lambda study: 4 * 4 * BLOCK * len(study.mixtures.pairs),
)
def sensitivity(job: StageJob) -> list[Load]:
    """Gradients, and losses before and after the steps of look-ahead."""
    passes = MEASURES[job.wildcards["measure"]].passes(len(job.layout.compared))
    return [
        load._replace(examples=number * load.examples)
        for kind, number in zip(("train", "prune"), passes, strict=True)
        if number
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
