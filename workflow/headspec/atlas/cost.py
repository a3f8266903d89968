"""Costs, in passes, of the head atlas."""

from collections.abc import Iterator

from headspec.models.passes import Load, StageJob, stage

#: cost of ablating every head alone, relative to a full pass each: earlier layers are computed once
RESUMED = 0.53


@stage({"prune": "atlas.sentences"}, copies=3, gpus="layers")
def attended(job: StageJob) -> list[Load]:
    """Return loads in which sentences for roles count as examples of the run's first task."""
    return [Load("prune", job.tasks[0], job.study.atlas.sentences)]


@stage({"prune": "atlas.examples"}, copies=3, gpus="layers")
def attention(job: StageJob) -> list[Load]:
    return _measured(job, "prune", 1)


@stage({"importance": "atlas.examples"}, copies=3, gpus="layers")
def relevance(job: StageJob) -> list[Load]:
    return _measured(job, "importance", 2)


@stage({"importance": "atlas.examples"}, copies=3, gpus="layers")
def measured(job: StageJob) -> list[Load]:
    """Return loads in which a plugin's measure, whose passes are unknown, costs as much as importance."""
    return _measured(job, "importance", 1)


@stage(
    {"prune": "atlas.examples, or leave mean_ablation out of atlas.rankings"},
    copies=3, gpus="layers", writes=True,
)  # fmt: skip
def ablation(job: StageJob) -> list[Load]:
    heads = job.heads(job.wildcards["model"])
    return _measured(job, "prune", 1 + len(job.study.atlas.ablations) * heads * RESUMED)


@stage(
    {"prune": "atlas.fractions, atlas.rankings or atlas.examples", "importance": "atlas.fractions"},
    copies=3, gpus="layers", writes=True, under_masks=True,
)  # fmt: skip
def cumulative(job: StageJob) -> Iterator[Load]:
    atlas = job.study.atlas
    levels = len({*atlas.fractions, job.study.pruning.fraction} - {1.0})
    ends = 1 + atlas.bottom
    others = len(atlas.rankings) * (len(job.tasks) - 1)
    for_all = "importance" in atlas.rankings and len(job.tasks) > 1
    pruned = 2 + levels * (ends * (len(atlas.rankings) + for_all) + atlas.draws) + others
    yield from _measured(job, "prune", pruned)
    yield from _measured(job, "importance", ends * levels * ("rescored" in atlas.rankings))


def _measured(job: StageJob, kind: str, passes: float) -> list[Load]:
    return job.validated(passes, job.study.atlas.examples, kind)
