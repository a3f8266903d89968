"""Whether a study can be run, found out before any job starts: its models and its data against its config.

`headspec.validation` has read the config by then. Snakemake refuses what is wrong here, and so does the plan.
"""

from __future__ import annotations

from headspec import architectures, draws, grid, probe, tasks
from headspec.brain import experiment
from headspec.errors import HeadspecError, MissingError
from headspec.study import Study
from headspec.tasks import Prepared


def check(study: Study) -> None:
    """Refuse, with one HeadspecError for everything that is wrong, a study that cannot be run here."""
    if found := problems(study):
        raise HeadspecError.of(found)


def missing(study: Study) -> list[HeadspecError]:
    """What is not on this machine, if nothing else is wrong; else refuse the study as `check` does."""
    found = problems(study)
    if not all(isinstance(problem, MissingError) for problem in found):
        raise HeadspecError.of(found)
    return found


def problems(study: Study) -> list[HeadspecError]:
    """Everything that is wrong with models and data, as far as they can be read without a network."""
    prepared: dict[str, Prepared] = {}
    found: list[HeadspecError] = []
    for check in (
        architectures.check,
        grid.check,
        lambda study: prepared.update(tasks.check(study)),
        lambda study: draws.check(study, prepared),
        probe.check,
        experiment.check,
    ):
        try:
            check(study)
        except HeadspecError as error:
            found += error.parts
    return found
