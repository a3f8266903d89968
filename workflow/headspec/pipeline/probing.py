"""Inputs, settings and figures of the rules of the section `probes`."""

from functools import cached_property
from typing import Any

from headspec.config.runs import NO_MIXTURE, PRETRAINED, Run
from headspec.pipeline.layout import Layout

#: the method of rows on an encoder with random weights
RANDOM = "random"
#: figures of each model and task
TASK_FIGURES = ("known", "heads", "changes")
#: model, mixture, method and task
Group = tuple[str, str, str, str]


class Probing:
    """Groups of probed runs, with their tables and figures."""

    def __init__(self, layout: Layout) -> None:
        self.layout, self.study = layout, layout.study

    @cached_property
    def _tables(self) -> dict[Group, list[str]]:
        """The tables of each group of probed runs, one per seed; only one for a pretrained encoder."""
        groups: dict[Group, list[str]] = {}
        result = self.layout.result
        for run in self.study.probed:
            for task in (task for task in run.tasks if task in self.layout.probed_tasks):
                if self.study.models[run.model].weights == PRETRAINED:
                    once = [result("probes", run.model, f"{task}.parquet")]
                    groups.setdefault((run.model, NO_MIXTURE, PRETRAINED, task), once)
                drawn = [result("probes", run.model, f"seed{s}", f"{task}.parquet") for s in self.study.seeds]
                groups.setdefault((run.model, NO_MIXTURE, RANDOM, task), drawn)
                paths = groups.setdefault((run.model, run.mixture, run.method, task), [])
                paths.append(result("runs", run.path, f"probes/{task}.parquet"))
        return groups

    @property
    def groups(self) -> list[tuple[list[str], int]]:
        """Every group, with its number of tables."""
        return [([*group], len(paths)) for group, paths in self._tables.items()]

    @property
    def tables(self) -> list[str]:
        """The tables of all groups, in order."""
        return [path for paths in self._tables.values() for path in paths]

    @property
    def runs(self) -> list[Run]:
        return self.study.probed

    @property
    def metrics(self) -> dict[str, list[str]]:
        """The metrics of the probed runs' tasks."""
        tasks = self.study.in_order([task for run in self.runs for task in run.tasks])
        return {task: self.layout.metrics[task] for task in tasks}

    @property
    def main_metrics(self) -> dict[str, str]:
        return {task: metrics[0] for task, metrics in self.metrics.items()}

    @cached_property
    def figures(self) -> list[str]:
        """Names of the figures of probes."""
        tasks = dict.fromkeys((model, task) for model, _, _, task in self._tables)
        names = [f"probes/{kind}.{model}.{task}" for kind in TASK_FIGURES for model, task in tasks]
        return [*names, *(f"probes/sharing.{model}" for model in dict.fromkeys(model for model, _ in tasks))]

    def joint(self, wildcards: Any) -> str | None:
        """Return the probed mixture with the most tasks that contains a job's task."""
        asked = wildcards.model, "tuned", wildcards.task
        mixtures = [name for model, name, method, task in self._tables if (model, method, task) == asked]
        return max(mixtures, key=lambda name: len(self.layout.mixtures[name]), default=None)

    def _shown(self, wildcards: Any) -> dict[str, list[str]]:
        """Return the groups whose heads a figure shows: untrained, alone, and in the largest mixture."""
        shown = {}
        for name, mixture, method in [
            (PRETRAINED, NO_MIXTURE, PRETRAINED),
            (RANDOM, NO_MIXTURE, RANDOM),
            ("alone", wildcards.task, "single"),
            (self.joint(wildcards), self.joint(wildcards), "tuned"),
        ]:
            if paths := self._tables.get((wildcards.model, str(mixture), method, wildcards.task)):
                shown[str(name)] = paths
        return shown

    def shown_tables(self, wildcards: Any) -> list[str]:
        """Return the tables of the shown groups, in order."""
        return [path for paths in self._shown(wildcards).values() for path in paths]

    def shown(self, wildcards: Any) -> list[tuple[str, int]]:
        """Return the names of the shown groups, with their numbers of tables."""
        return [(name, len(paths)) for name, paths in self._shown(wildcards).items()]
