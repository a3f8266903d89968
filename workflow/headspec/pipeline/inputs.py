"""Inputs of the rules: files, and settings of the config, by wildcards.

Methods with a parameter `wildcards` are input functions of Snakemake. Methods that return a `Function` build
one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from headspec.code_hash import LIBRARY
from headspec.config import variants
from headspec.config.checks import prompt_keys
from headspec.config.measures import heads as head_measures
from headspec.config.methods import METHODS
from headspec.config.runs import PRETRAINED, REWARMED, Run, named
from headspec.config.sections.task import LATER
from headspec.config.sources import locate
from headspec.config.study import Study, plain
from headspec.data import planned
from headspec.data.planned import Planned
from headspec.data.sources import readers, treebank
from headspec.errors import ConfigError, MissingError, nearest
from headspec.heads import head_lists
from headspec.models.pretrained import versions
from headspec.pipeline.layout import PROMPTS, RUN, Layout
from headspec.tasks import find_part
from headspec.tasks.classes import type_of
from headspec.tasks.kinds import KINDS, kind

#: module that loads a part of kinds of tasks by name: the part
PARTS = {
    "headspec/tasks/data.py": "data",
    "headspec/tasks/tokens.py": "tokens",
    "headspec/tasks/heads.py": "head",
    "headspec/tasks/metrics.py": "metrics",
    "headspec/tasks/prompts.py": "prompts",
    "headspec/tasks/words/base.py": "units",
}

Settings = dict[str, Any]
Function = Callable[[Any], Any]  # called by Snakemake with the wildcards of a job


class Inputs:
    """Input files and settings for the rules of a study.

    Parameters
    ----------
    plan : the tasks as they were read, to read them no second time; jobs on a cluster have none
    """

    def __init__(self, layout: Layout, plan: Planned | None = None) -> None:
        self.layout, self.plan = layout, plan

    @property
    def study(self) -> Study:
        return self.layout.study

    # --- settings

    def settings(self, section: str, *keys: str) -> Settings:
        """These keys of a section of the config."""
        values = plain(getattr(self.study, section))
        return {key: values[key] for key in keys}

    def model_settings(self, *keys: str) -> Function:
        """Function for these keys of a job's model; `weights` and `transformer` only of models drawn anew."""

        @cache
        def of_model(model: str) -> Settings:
            values = plain(self.study.models[model])
            usual = ("weights", PRETRAINED), ("transformer", None)
            return {key: values[key] for key in keys if (key, values[key]) not in usual}

        return lambda wildcards: of_model(wildcards.model)

    def head_lists(self, wildcards: Any) -> dict[str, list[list[int]]]:
        """List of a job's model: its heads."""
        lists, key = self.study.models[wildcards.model].heads, f"models.{wildcards.model}.heads"
        return {name: head_lists.read(lists[name], f"{key}.{name}") for name in sorted(lists)}

    def task_settings(self, *without: str) -> Function:
        """Function for the settings of a task that affect its data, except the keys `without`."""

        def function(wildcards: Any) -> Settings:
            task = self.study.tasks[wildcards.task]
            return plain(task.model_dump(exclude={"test", *LATER, *without}))

        return function

    def prompt_settings(self, wildcards: Any) -> Settings:
        """The keys of a task for the method `prompted`."""
        task = self.study.tasks[wildcards.task]
        return plain(task.model_dump(include={"type", *prompt_keys.KEYS}))

    def split_settings(self, wildcards: Any) -> Settings:
        """The settings of a task that affect one of its further splits or test sets."""
        task = self.study.tasks[wildcards.task]
        stored = getattr(task, wildcards.kind)[wildcards.name]
        without = {"further", "test", "train_examples", *LATER}
        values = plain(task.model_dump(exclude=without))
        return values | {wildcards.kind: {wildcards.name: stored}}

    def text_sources(self, runs: list[Run]) -> Function:
        """Function for the tasks of `runs` that share texts: task: the task whose texts they are."""
        first: dict[tuple, str] = {}  # the first task of a source
        shared = {}
        for name, task in self.study.tasks.items():
            if not task.pairs_of and (source := first.setdefault((task.source, task.subset), name)) != name:
                shared[name] = source
        for name, task in self.study.tasks.items():
            if task.pairs_of:
                shared[name] = shared.get(task.pairs_of, task.pairs_of)

        @cache
        def sources() -> Settings:
            used = {task for run in runs for task in run.tasks} if shared else set()
            return {
                task: source for name, source in shared.items() if name in used for task in (source, name)
            }

        return lambda wildcards: sources()

    def texts(self, runs: list[Run]) -> Function:
        """Function for the validation tables of these tasks."""
        sources = self.text_sources(runs)
        return lambda wildcards: [
            self.layout.result("data", task, "validation.parquet") for task in sources(wildcards)
        ]

    def training_settings(self, wildcards: Any) -> Settings:
        """The training settings that a run's method uses."""
        values, method = dict(self._training), wildcards.method
        sections = {name: values.pop(name) for name in METHODS if name in values}
        of_kinds = {key: values.pop(key) for each in KINDS.values() for key in each.training if key in values}
        if variant := self.layout.variants.get(method):
            values["sampling"] = variant.sampling
        elif method in sections:
            values |= sections[method]
        kinds = [kind(self.study.tasks[task]) for task in self.tasks(wildcards)]
        trained = self.layout.trains(method) != "classifiers"
        used = {key for each in kinds for key in each.training} if trained else set()
        return values | {key: value for key, value in of_kinds.items() if value and key in used}

    def trains(self, wildcards: Any) -> str:
        """What a run's method trains."""
        return self.layout.trains(wildcards.method)

    @cached_property
    def _training(self) -> Settings:
        return plain(self.study.training.model_dump(exclude={"checkpoint_minutes"}))

    @property
    def rates(self) -> Settings:
        """What decides on the learning rates of training, and after a branch."""
        training, iat = self.study.training, self.study.iat
        rewarmed = (iat.peak or training.learning_rate) if iat.rate == REWARMED else None
        return {**self.settings("training", "learning_rate", "warmup", "decay"), "peak": rewarmed}

    def variant_settings(self, wildcards: Any) -> Settings:
        """What makes a variant of training: its heads, their fraction, and what else is not as in IAT."""
        variant, study = self.layout.variants[wildcards.method], self.study
        return variants.settings(variant, study.iat, study.importance.samples, study.training.learning_rate)

    def variant_modules(self, wildcards: Any) -> list[str]:
        """The module of `headspec` that restricts a variant of training."""
        return [f"training/variants/{self.variant_settings(wildcards).get('module', 'own')}.py"]

    def tasks(self, wildcards: Any) -> list[str]:
        """The tasks of a run's mixture, in order; ConfigError for a mixture that the study does not have."""
        known, name = self.layout.mixtures, wildcards.mixture
        if name not in known:
            raise ConfigError(f"no mixture '{name}' in {self.study.study}.{nearest(name, known)}")
        return list(known[name])

    def translations(self, wildcards: Any) -> list[str]:
        """Those of a run's tasks whose texts the model writes."""
        return [name for name in self.tasks(wildcards) if kind(self.study.tasks[name]).writes]

    def metrics(self, wildcards: Any) -> dict[str, list[str]]:
        return {task: self.layout.metrics[task] for task in self.tasks(wildcards)}

    def all_metrics(self, wildcards: Any) -> dict[str, list[str]]:
        """With those by which models are not compared."""
        return {task: self.study.tasks[task].all_metrics for task in self.tasks(wildcards)}

    def beams(self, wildcards: Any) -> dict[str, int]:
        """Beams of the tasks of a run that are not decoded greedily."""
        tasks = {task: self.study.tasks[task] for task in self.tasks(wildcards)}
        of_tasks = {name: kind(task).beams(task) for name, task in tasks.items()}
        return {task: beams for task, beams in of_tasks.items() if beams > 1}

    def main_metrics(self, wildcards: Any) -> dict[str, str]:
        return {task: self.layout.main_metrics[task] for task in self.tasks(wildcards)}

    def kind_modules(self, wildcards: Any, code: Iterable[str]) -> list[str]:
        """The parts of the kinds of a job's tasks that `code` lacks, but has the loaders of."""
        tasks = self.study.tasks
        if wildcards.get("task") in tasks:
            used = [wildcards.task]
        else:
            used = self.tasks(wildcards) if wildcards.get("mixture") else list(tasks)
        types = dict.fromkeys(tasks[name].type for name in used)
        if wildcards.get("texts"):  # which no task has, and are read as if they had scores
            types = {type_of(None): None}
        parts = [part for loader, part in PARTS.items() if loader in code]
        found = (find_part(name, part) for name in types for part in parts)
        modules = dict.fromkeys(str(module.origin) for module in found if module)
        return [module for module in modules if os.path.relpath(module, LIBRARY.parent) not in code]

    # --- versions

    def source_version(self, wildcards: Any) -> str:
        """Version of a task's source, as far as it is in a package or on the hub."""
        task = self.study.tasks[wildcards.task]
        packaged = str(task.source).startswith("package:")
        more = [getattr(task, wildcards.kind)[wildcards.name]] if wildcards.get("kind") else []
        return readers.version(task.source or "", readers.local_files(task, *more) if packaged else ())

    def weights_version(self, wildcards: Any) -> str:
        """Version of the config and weights of a pretrained model."""
        return self._versions("weights", wildcards.model)

    def tokenizer_version(self, wildcards: Any) -> str:
        """Version of the config and tokenizer of a pretrained model."""
        return self._versions("tokenizer", wildcards.model)

    @cached_property
    def _versions(self) -> Callable[[str, str], str]:
        """Function, looked up once per model, for the version of its `weights` or its `tokenizer`."""

        @cache
        def version(kind: str, name: str) -> str:
            results = Path(self.layout.result("tokens", name))
            return getattr(versions, kind)(self.study.models[name], f"models.{name}", results)

        return version

    # --- vocabulary

    def vocabulary(self, wildcards: Any) -> list[str]:
        """The vocabulary that is made for a job's model, if it has no tokenizer."""
        made = self.study.models[wildcards.model].transformer
        return [self.layout.result("vocabulary", f"{wildcards.model}.parquet")] if made else []

    def vocabulary_texts(self, wildcards: Any) -> list[str]:
        """Training tables of all tasks that models learn."""
        return [self.layout.result("data", task, "train.parquet") for task in self._learnt]

    def vocabulary_settings(self, wildcards: Any) -> Settings:
        """The size of a vocabulary, and the languages that it has tokens of."""
        made = self.study.models[wildcards.model].transformer
        tasks = [self.study.tasks[task] for task in self._learnt]
        languages = {language for task in tasks for language in kind(task).languages(task)}
        return {"languages": sorted(languages), "size": made.vocabulary if made else 0}

    @cached_property
    def _learnt(self) -> list[str]:
        return list(self.study.in_order([task for run in self.study.runs for task in run.tasks]))

    # --- files of the user

    def user_file(self, key: str) -> Function:
        """Function for the file in a key of the section `brain`."""

        def function(wildcards: Any) -> str:
            source = getattr(self.study.brain, key)
            return user_files(source, lambda: [locate(source, f"brain.{key}")])[0]

        return function

    def source_files(self, split: str) -> Function:
        """Function for the local files of a task's source, or the table that its pairs are made of."""

        def function(wildcards: Any) -> list[str]:
            task = self.study.tasks[wildcards.task]
            if task.pairs_of:
                return [self.layout.result("data", task.pairs_of, f"{split}.parquet")]
            return user_files(str(task.source), lambda: readers.files(task))

        return function

    def split_files(self, wildcards: Any) -> list[str]:
        """Local files of a task's further split or test set."""
        task = self.study.tasks[wildcards.task]
        split = getattr(task, wildcards.kind)[wildcards.name]
        return user_files(str(task.source), lambda: readers.files(task, split))

    def sentence_sources(self, wildcards: Any) -> list[str]:
        """Source of the compared sentences: the user's file, or validation tables of all compared tasks."""
        if source := self.study.similarity.sentences:
            return user_files(source, lambda: [locate(source, "similarity.sentences")])
        return [self.layout.result("data", task, "validation.parquet") for task in self.layout.compared]

    # --- treebank

    def treebank_files(self, wildcards: Any) -> list[str]:
        """The user's treebank, if it is a file; without a treebank, the texts of the atlas's tasks."""
        if settings := self.study.atlas.treebank:
            return user_files(settings.source, lambda: treebank.files(settings))
        return [self.layout.result("data", task, "validation.parquet") for task in self.layout.atlas_tasks]

    def ranking_tables(self, wildcards: Any) -> list[str]:
        """The tables of a run that have the measures by which heads are ranked."""
        names = head_measures.tables(self.study.atlas.rankings)
        return [self.run_file(f"atlas/{name}.parquet", **wildcards) for name in names]

    def treebank_version(self, wildcards: Any) -> str:
        """Version of the treebank, likewise."""
        settings = self.study.atlas.treebank
        return readers.version(settings.source, treebank.files(settings, "package:")) if settings else ""

    # --- data

    @cached_property
    def all_leaks(self) -> dict[str, dict[str, list[int] | None]]:
        return planned.leaks(self.study, self.plan or planned.prepare_tasks(self.study))

    def leaks(self, wildcards: Any) -> dict[str, list[int]]:
        """Other task that is evaluated on training rows of a task: the keys of these rows."""
        return {o: keys for o, keys in self.all_leaks[wildcards.task].items() if keys is not None}

    def evaluated_elsewhere(self, wildcards: Any) -> list[str]:
        """Tables that other tasks are evaluated on, for tasks that only the job can compare."""
        return [
            self.layout.result("data", task, f"{name}.parquet")
            for task, keys in self.all_leaks[wildcards.task].items()
            if keys is None
            for name in ["validation", *(f"further/{name}" for name in self.study.tasks[task].further)]
        ]

    def split_base(self, wildcards: Any) -> str:
        """The table of a task that the job of another split needs: for its classes, or to compare texts."""
        split = {"further": "validation", "test": "train"}[wildcards.kind]
        return self.layout.result("data", wildcards.task, f"{split}.parquet")

    def more_names(self, kind: str, mixture: str) -> dict[str, str]:
        """Further split, or prediction file of a test set (`kind`): its task, over the tasks of a mixture."""
        tasks = self.layout.mixtures[mixture]
        return {name: task for task in tasks for name in getattr(self.study.tasks[task], kind)}

    def more_splits(self, kind: str, folder: str) -> Function:
        """Function for the further splits, or test sets, of a run's tasks, in order."""

        def function(wildcards: Any) -> list[str]:
            names = self.more_names(kind, wildcards.mixture)
            return [
                self.layout.result(folder.format(**wildcards), task, kind, f"{name}.parquet")
                for name, task in names.items()
            ]

        return function

    def tokens(self, split: str) -> Function:
        """Function for the tokens of a split, or of its prompts, of each of a run's tasks, in order."""

        def function(wildcards: Any) -> list[str]:
            prompted = self.trains(wildcards) == "nothing"

            def folder(task: str) -> str:
                worded = prompted and self.study.tasks[task].worded
                return (PROMPTS if worded else "tokens/{model}/{task}").format(**{**wildcards, "task": task})

            return [self.layout.result(folder(task), f"{split}.parquet") for task in self.tasks(wildcards)]

        return function

    def targets(self, split: str) -> Function:
        """Function for the tokens of a split of each of a run's `translations`."""
        return lambda wildcards: [
            self.layout.result("tokens", wildcards.model, task, f"{split}.parquet")
            for task in self.translations(wildcards)
        ]

    def task_tables(self, folder: str, *splits: str) -> Function:
        """Function for tables of a job's task in a folder, with wildcards, one for each split."""
        return lambda wildcards: [
            self.layout.result(folder.format(**wildcards), wildcards.task, f"{split}.parquet")
            for split in splits
        ]

    def compared_tokens(self, wildcards: Any) -> list[str]:
        """Training tokens of each compared task."""
        compared = self.layout.compared
        return [self.layout.result("tokens", wildcards.model, task, "train.parquet") for task in compared]

    def training_texts(self) -> list[str]:
        """Training tables of the compared tasks; for a pair task, of the task that its pairs are made of."""
        tasks = dict.fromkeys(self.study.tasks[task].pairs_of or task for task in self.layout.compared)
        return [self.layout.result("data", task, "train.parquet") for task in tasks]

    def features(self, wildcards: Any) -> list[str]:
        """Features of each of a run's tasks on texts, if its method is frozen and seeds share its encoder."""
        same = self.study.models[wildcards.model].weights == PRETRAINED
        tasks = self.tasks(wildcards) if self.trains(wildcards) == "classifiers" and same else []
        tasks = [task for task in tasks if kind(self.study.tasks[task]).pooled]
        return [self.layout.result("features", wildcards.model, f"{task}.parquet") for task in tasks]

    # --- runs

    def run_file(self, name: str, **wildcards: object) -> str:
        """A file of the run with these `wildcards`: model, mixture, method and seed."""
        return self.layout.result(RUN.format(**wildcards), name)

    def branch(self, name: str) -> Function:
        """Function for a file of the branch that a variant of training continues."""

        def function(wildcards: Any) -> str:
            variant = self.layout.variants[wildcards.method]
            run = {**wildcards, "method": variant.base}
            assert variant.delta is not None  # only plain training has none
            return self.run_file(f"branch/{named(variant.delta)}/{name}", **run)

        return function

    def source_model(self, wildcards: Any) -> list[str]:
        """The model whose encoder is transferred; none for the method pretrained."""
        if wildcards.method == "pretrained":
            return []
        return [self.run_file("model/classifiers.json", **wildcards)]

    def seed_files(self, name: str) -> Function:
        """Function for a table of the runs of all seeds."""
        return lambda wildcards: [
            self.run_file(name, **{**wildcards, "seed": seed}) for seed in self.study.seeds
        ]

    def first_seed_file(self, name: str) -> Function:
        """Function for a table of the run of the first seed."""
        return lambda wildcards: self.run_file(name, **{**wildcards, "seed": self.study.seeds[0]})

    def single_task_files(self, name: str) -> Function:
        """Function for a file of the single-task run, which is trained, of each compared task."""
        return lambda wildcards: [
            self.run_file(name, model=wildcards.model, mixture=task, method="single", seed=wildcards.seed)
            for task in self.layout.compared
        ]

    def predicted(self, wildcards: Any) -> list[str]:
        """Predictions for test sets, by a run of the mixture or by single-task runs."""
        mixtures = [wildcards.mixture]
        if wildcards.method == "single":
            mixtures = list(dict.fromkeys(self.more_names("test", wildcards.mixture).values()))
        return [
            self.run_file("submission.parquet", **{**wildcards, "mixture": mixture}) for mixture in mixtures
        ]


def user_files(source: str, find: Callable[[], Iterable[Path]]) -> list[str]:
    """The paths, for rules, of what `find` finds of a source; of one that is missing here, only its name."""
    try:
        return [workflow_path(path) for path in find()]
    except MissingError:
        return [source]


def workflow_path(path: str | Path) -> str:
    """The path of a user's file for rules: relative if it is below the working folder, else absolute."""
    absolute = os.path.abspath(path)
    relative = os.path.relpath(absolute)
    return absolute if relative.startswith(os.pardir) else relative
