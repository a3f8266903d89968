"""Paths of a study's results, lists of them for rules, and constraints on their wildcards."""

import itertools
import re
from collections.abc import Iterable
from functools import cached_property

from headspec.config.measures import heads as head_measures
from headspec.config.methods import METHODS
from headspec.config.pruning_methods import any_learnt
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
#: figures of the head atlas, for each model, mixture and method
ATLAS_FIGURES = ("heads", "ablation", "ranked", "agreement", "confidence")
#: other figures of each model, mixture and method
RUN_FIGURES = ("importance", "matrix", "curves")
#: maximum number of mixtures for which figures of single mixtures are made by default
DRAWN = 60


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
    def trainings(self) -> int:
        """Number of runs that do not train classifiers alone; their jobs dominate a study's work."""
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

    @cached_property
    def main_figures(self) -> list[str]:
        """Names of the main figures; above `DRAWN` mixtures, without those of single mixtures."""
        study, models = self.study, self.study.models
        names = []
        if len(study.mixture_tasks) <= DRAWN:
            combinations = dict.fromkeys((run.model, run.mixture, run.method) for run in self.mixed)
            if self.mixed:
                names.append("dissociation")
                names += [f"{name}.{model}" for model in models for name in ("fractions", "matrix_parts")]
                names += ["shared_fragility"] * (len(models) > 1 and bool(self.mixtures_of_three))
            names.append("reliability")
            names += [".".join([name, *each]) for name in RUN_FIGURES for each in combinations]
        names += [f"scatter.{measure}" for measure in study.similarity.measures]
        if study.similarity.measures:
            names += ["correlation", *(f"similarity.{model}" for model in models)]
        if study.brain:
            names += [f"brain_encoding.{model}" for model in models]
        return names

    @cached_property
    def iat_figures(self) -> list[str]:
        """Names of the figures of IAT, for each model and mixture of `iat.mixtures`."""
        study = self.study
        swept = [v for v in study.variants.values() if (v.retraining, v.base) == ("top", study.plain_method)]
        figures = ["verdict", "improvement", "specialization"] + ["alpha-delta"] * (len(swept) > 1)
        return list(map(".".join, itertools.product(figures, study.models, study.iat.mixtures)))

    @cached_property
    def transfer_figures(self) -> list[str]:
        """Names of the figures of few-shot transfer."""
        transferred = itertools.product(self.study.models, self.study.transfer.tasks)
        return [f"transfer.{model}.{task}" for model, task in transferred]

    @cached_property
    def atlas_figures(self) -> list[str]:
        """Names of the figures of the head atlas."""
        names = []
        groups = {(run.model, run.mixture, run.method): run.tasks for run in self.atlas_runs}
        for (model, mixture, method), tasks in groups.items():
            figures = [*ATLAS_FIGURES, *(["differences"] if len(tasks) > 1 else [])]
            figures += ["change"] if (model, mixture, self.before.get(method)) in groups else []
            names += [".".join([f"atlas/{figure}", model, mixture, method]) for figure in figures]
        return [*names, "atlas/believe"]

    @cached_property
    def gates_figures(self) -> list[str]:
        """Names of the figures of the section `gates`."""
        runs = [cell.run for cell in self.study.pruned_runs]
        figures = ["budgets", "kept", "kept_kinds"]
        figures += ["learning"] * any_learnt(self.study.gates.pruning_methods)
        figures += ["kept_roles"] * self.has_roles
        groups = dict.fromkeys((run.model, run.mixture, run.method) for run in runs)
        names = [f"gates/{figure}.{'.'.join(group)}" for figure in figures for group in groups]
        own = any(cell.scope == "per_task" for cell in self.study.pruned_runs)
        alone = {run.mixture for run in runs if run.method == "single"}
        paired = len(self.study.seeds) > 1 or own or len(alone) > 1
        return [*names, *(f"gates/overlap.{model}" for model in self.study.models if paired)]

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
