"""Paths of a study's results, lists of them for rules, and constraints on their wildcards."""

import itertools
import re
from collections.abc import Iterable
from functools import cached_property

from headspec.config.measures import heads as head_measures
from headspec.config.methods import METHODS
from headspec.config.runs import PrunedRun, Run
from headspec.config.study import Study
from headspec.config.variants import RETRAININGS
from headspec.data import submission
from headspec.data.tasks_read import TasksRead
from headspec.tasks.registry import kind

#: folder of the prompts of a task
PROMPTS = "prompts/{model}/{task}/seed{seed}"
#: folder of the prediction files of a run
SUBMISSION = "submission/{model}/{mixture}/{method}/seed{seed}"


class Layout:
    """Paths of a study's results, and lists of the results that the config asks for.

    `tasks_read` has the tasks as read; None in jobs on a cluster.
    """

    def __init__(self, study: Study, tasks_read: TasksRead | None = None) -> None:
        self.study, self.tasks_read = study, tasks_read

    def result(self, *names: str) -> str:
        """Return a path in the study's results, which may have wildcards."""
        return "/".join(["results", self.study.study, *names])

    def log(self, *names: str) -> str:
        return self.result("logs", *names) + ".log"

    def data(self, task: str, split: str) -> str:
        """Return the table of a split of a task."""
        return self.result("data", task, f"{split}.parquet")

    def run_files(self, runs: Iterable[Run | PrunedRun], name: str) -> list[str]:
        """Return a file of each of `runs`."""
        return [self.result("runs", run.path, name) for run in runs]

    # --- runs

    @cached_property
    def methods(self) -> list[str]:
        """The methods of all runs."""
        return list(dict.fromkeys(run.method for run in self.study.runs + self.study.iat_runs))

    @property
    def trained(self) -> list[str]:
        """The methods that train from the pretrained model."""
        study = self.study
        return [m for m in self.methods if m not in study.retrained and study.trains(m) != "nothing"]

    @cached_property
    def mixed(self) -> list[Run]:
        """Runs of several tasks, whose heads are pruned and compared."""
        return [run for run in self.study.runs if len(run.tasks) > 1]

    @cached_property
    def learnt_tasks(self) -> list[str]:
        """The tasks of all runs, in order."""
        return list(self.study.in_order([task for run in self.study.runs for task in run.tasks]))

    @cached_property
    def listed(self) -> list[Run]:
        """Runs of several tasks whose model has head lists to evaluate."""
        return [run for run in self.mixed if self.study.models[run.model].heads]

    @property
    def heavy_runs(self) -> int:
        """Number of runs, also prompted, that do not train classifiers alone; they are most of the work."""
        runs = dict.fromkeys([*self.study.runs, *self.study.iat_runs])
        pruned = self.study.pruned_runs if "gates" in self.study.methods else []
        return sum(self.study.trains(run.method) != "classifiers" for run in runs) + len(pruned)

    @cached_property
    def preview(self) -> list[Run]:
        """The runs of the first model, mixture and method whose heads are pruned."""
        own = [run for run in self.mixed if run.method == self.study.correlated]
        return [run for run in own if (run.model, run.mixture) == (own[0].model, own[0].mixture)]

    @cached_property
    def before_and_after(self) -> list[Run]:
        """Runs of plain training and IAT, whose dissociation is compared."""
        return [run for run in self.study.iat_runs if run.method in (self.study.plain_method, "iat")]

    @cached_property
    def compared(self) -> list[str]:
        """The tasks whose similarity is measured."""
        return list(self.study.in_order(self.study.mixtures.pairs))

    @cached_property
    def paradigms(self) -> dict[str, str]:
        """Whether examples are single texts or pairs, by compared task."""
        return {task: self.study.tasks[task].paradigm for task in self.compared}

    @cached_property
    def pairs(self) -> list[str]:
        """The mixtures of `mixtures.pairs`."""
        return ["+".join(pair) for pair in itertools.combinations(self.compared, 2)]

    @cached_property
    def parents(self) -> dict[str, str]:
        """The task whose texts each pair task uses."""
        return {name: task.pairs_of for name, task in self.study.tasks.items() if task.pairs_of}

    @cached_property
    def test_files(self) -> list[str]:
        """Names of all prediction files to write."""
        return submission.written([file for task in self.study.tasks.values() for file in task.test])

    # --- head atlas

    @cached_property
    def atlas_runs(self) -> list[Run]:
        """The runs whose heads the atlas measures."""
        return self.study.atlas_runs

    @cached_property
    def atlas_tasks(self) -> list[str]:
        """The tasks of the runs that the atlas measures."""
        return list(self.study.in_order([task for run in self.atlas_runs for task in run.tasks]))

    @cached_property
    def measured(self) -> list[str]:
        """The measures of heads that their own modules make of a model, for rankings and variants of IAT."""
        retrainings = [v.retraining for v in self.study.variants.values()]
        owning = [RETRAININGS[name].ranking for name in retrainings if name]
        return list(dict.fromkeys([*self.study.atlas.measured, *filter(None, owning)]))

    @cached_property
    def before(self) -> dict[str, str]:
        """The method that precedes each, if the atlas measures both: `frozen` is the pretrained encoder."""
        methods = {run.method for run in self.atlas_runs}
        before = {name: method.before for name, method in METHODS.items() if method.before}
        before |= {"iat": self.study.plain_method}
        return {name: other for name, other in before.items() if {name, other} <= methods}

    @property
    def head_measures(self) -> list[str]:
        """The tables of measures of all runs in the atlas."""
        tables = [*head_measures.STANDARD, *head_measures.own(self.study.atlas.rankings)]
        return [
            path for table in tables for path in self.run_files(self.atlas_runs, f"atlas/{table}.parquet")
        ]

    # --- figures

    def figure(self, name: str) -> list[str]:
        """Return a figure in every format of the config."""
        return [self.result("figures", f"{name}.{suffix}") for suffix in self.study.figures.formats]

    def figures(self, names: Iterable[str]) -> list[str]:
        return [path for name in names for path in self.figure(name)]

    @cached_property
    def mixtures_of_three(self) -> dict[str, list[str]]:
        """The mixtures of three tasks or more, and their tasks."""
        mixtures = self.study.mixture_tasks
        return {name: [*tasks] for name, tasks in mixtures.items() if len(tasks) > 2}

    @property
    def has_roles(self) -> bool:
        """Whether `snakemake gates` compares roles: the study has a treebank or the atlas."""
        return self.study.atlas.treebank is not None or "atlas" in self.study.methods

    # --- probes

    @cached_property
    def probed_tasks(self) -> list[str]:
        """The tasks on words, for which heads can be probed."""
        return [name for name, task in self.study.tasks.items() if kind(task).on_words]

    @property
    def submissions(self) -> list[str]:
        """The archive of prediction files for each run with all tasks that have `test`."""
        return [
            self.result("submission", model, mixture, method, f"seed{seed}", submission.ARCHIVE)
            for model in self.study.models
            for mixture, method in self.study.submissions
            for seed in self.study.seeds
        ]


def any_of(names: Iterable[object]) -> str:
    """Return a regular expression for one of `names`; without any, it matches nothing."""
    return "|".join(re.escape(str(name)) for name in names) or "(?!)"


def constraints(layout: Layout) -> dict[str, str]:
    """Return the constraint of each wildcard.

    A mixture is any one or two tasks, or a group: Snakemake would search a list of pairs for every file.
    """
    study = layout.study
    task = any_of(study.tasks)
    return {
        "model": any_of(study.models),
        "mixture": rf"(?:{task})(?:\+(?:{task}))?|{any_of(study.mixtures.groups)}",
        "method": any_of(layout.methods),
        "task": task,
        "seed": r"\d+",
        "scope": "shared|per_task",
        "kept": r"open(-[\d.e-]+)?|[\d.e-]+",
    }
