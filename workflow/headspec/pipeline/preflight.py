"""Checks before any job starts: whether models and data exist and agree with the config.

`headspec.config.loading` has already checked the config itself. Both the workflow and the plan refuse a study
with problems.
"""

from __future__ import annotations

from headspec.config.study import Study
from headspec.data import few_shot, planned, sentences, treebank
from headspec.data.planned import Planned
from headspec.errors import HeadspecError, MissingError, listing
from headspec.heads import head_count
from headspec.models import architectures
from headspec.similarity.brain import experiment


def check(study: Study) -> Planned:
    """The tasks as they were read; one HeadspecError with all problems of a study that cannot be run here."""
    plan, errors = problems(study)
    if errors:
        raise HeadspecError.of(errors)
    return plan


def _atlas(study: Study) -> None:
    """HeadspecError if the section `atlas` is wanted, but no run has its methods and mixtures."""
    wanted = study.atlas != type(study.atlas)() or "atlas" in study.methods
    if wanted and not study.atlas_runs:
        trained = dict.fromkeys(f"{run.method} {run.mixture}" for run in study.runs)
        raise HeadspecError(
            f"atlas.methods: no run has method {listing(study.atlas.methods)}"
            + (f" and mixture {listing(study.atlas.mixtures)}" if study.atlas.mixtures else "")
            + f"; the study trains {listing(trained)}"
        )


def missing(study: Study) -> list[HeadspecError]:
    """Errors about files missing on this machine; raises as `check` if there are other problems."""
    _, errors = problems(study)
    if not all(isinstance(error, MissingError) for error in errors):
        raise HeadspecError.of(errors)
    return errors


def problems(study: Study) -> tuple[Planned, list[HeadspecError]]:
    """The tasks as they were read, and all problems of models and data that need no network to be seen."""
    plan = Planned()

    def read(study: Study) -> None:
        nonlocal plan
        plan = planned.read(study)

    errors: list[HeadspecError] = []
    for check in (
        architectures.check,
        head_count.check,
        read,
        lambda study: few_shot.check(study, plan.prepared),
        sentences.check,
        treebank.check,
        _atlas,
        experiment.check,
    ):
        try:
            check(study)
        except HeadspecError as error:
            errors += error.errors
    return plan, errors
