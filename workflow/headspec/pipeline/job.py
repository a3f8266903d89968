"""A job of a rule: its study and wildcards, which determine its files, settings and resources."""

from typing import Any

from headspec.config.pruning_methods import PRUNING_METHODS, PruningMethod
from headspec.config.runs import Variant
from headspec.config.sections.model import Model
from headspec.config.sections.task import Task
from headspec.errors import ConfigError, nearest
from headspec.pipeline.layout import RUN, Layout
from headspec.tasks.registry import kind


class Job:
    """A job of a rule of the study of `layout`, with the `wildcards` that Snakemake read from its outputs.

    Rules use functions of it: `files` for inputs, `settings` for params, `pruned` and `probing` for those of
    their sections, and `headspec.cost.requests` for resources.
    """

    def __init__(self, layout: Layout, wildcards: Any) -> None:
        self.layout, self.study, self.wildcards = layout, layout.study, wildcards

    @property
    def task(self) -> Task:
        """The task of a job on a single task."""
        return self.study.tasks[self.wildcards.task]

    @property
    def model(self) -> Model:
        return self.study.models[self.wildcards.model]

    @property
    def tasks(self) -> dict[str, Task]:
        """The tasks of the job's mixture, in order; ConfigError if the study does not have it."""
        mixtures, name = self.layout.mixtures, self.wildcards.mixture
        if name not in mixtures:
            raise ConfigError(f"no mixture '{name}' in {self.study.study}.{nearest(name, mixtures)}")
        return {task: self.study.tasks[task] for task in mixtures[name]}

    @property
    def translations(self) -> list[str]:
        """The tasks of the job's mixture whose texts the model writes."""
        return [name for name, task in self.tasks.items() if kind(task).writes]

    @property
    def trains(self) -> str:
        """The part of the model that the job's method trains."""
        return self.layout.trains(self.wildcards.method)

    @property
    def variant(self) -> Variant:
        """The variant of training that is the job's method."""
        return self.layout.variants[self.wildcards.method]

    @property
    def pruning_method(self) -> PruningMethod:
        return PRUNING_METHODS[self.wildcards.pruning_method]

    def names(self, split: str) -> dict[str, str]:
        """Return the task of each further split, or test set's prediction file, of the job's mixture."""
        return {name: task for task, keys in self.tasks.items() for name in getattr(keys, split)}

    def run_file(self, name: str, **changed: str) -> str:
        """Return a file of the job's run, or of the run with other wildcards."""
        return self.layout.result(RUN.format(**{**self.wildcards, **changed}), name)
