"""Input files of the rules: functions of `wildcards`, and methods that return such a `Function`."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from headspec.config.as_text import named
from headspec.config.measures import heads as head_measures
from headspec.config.runs import PRETRAINED, Run
from headspec.config.sources import locate
from headspec.data.sources import readers, treebank
from headspec.errors import MissingError
from headspec.pipeline.layout import PROMPTS, RUN
from headspec.pipeline.settings import Function, Settings
from headspec.tasks.registry import kind


class Inputs:
    """Input files for the rules of a study."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.layout, self.study = settings, settings.layout, settings.study

    def data(self, task: str, split: str) -> str:
        """Return the table of a split of a task."""
        return self.layout.result("data", task, f"{split}.parquet")

    def texts(self, runs: list[Run]) -> Function:
        """Return a function for the validation tables of the tasks of `runs`."""
        sources = self.settings.text_sources(runs)
        return lambda wildcards: [self.data(task, "validation") for task in sources(wildcards)]

    def vocabulary(self, wildcards: Any) -> list[str]:
        """Return the vocabulary of a job's model, if it has no tokenizer."""
        made = self.study.models[wildcards.model].transformer
        return [self.layout.result("vocabulary", f"{wildcards.model}.parquet")] if made else []

    # --- files of the user

    def user_file(self, key: str) -> Function:
        """Return a function for the file in a key of the section `brain`."""

        def function(wildcards: Any) -> str:
            source = getattr(self.study.brain, key)
            return user_files(source, lambda: [locate(source, f"brain.{key}")])[0]

        return function

    def source_files(self, split: str) -> Function:
        """Return a function for the local files of a task's source, or the table that makes its pairs."""

        def function(wildcards: Any) -> list[str]:
            task = self.study.tasks[wildcards.task]
            if task.pairs_of:
                return [self.data(task.pairs_of, split)]
            return user_files(str(task.source), lambda: readers.files(task))

        return function

    def split_files(self, wildcards: Any) -> list[str]:
        """Return the local files of a task's further split or test set."""
        task = self.study.tasks[wildcards.task]
        split = getattr(task, wildcards.kind)[wildcards.name]
        return user_files(str(task.source), lambda: readers.files(task, split))

    def sentence_sources(self, wildcards: Any) -> list[str]:
        """Return the source of compared sentences: the user's file, or compared tasks' validation tables."""
        if source := self.study.similarity.sentences:
            return user_files(source, lambda: [locate(source, "similarity.sentences")])
        return [self.data(task, "validation") for task in self.layout.compared]

    # --- treebank

    def treebank_files(self, wildcards: Any) -> list[str]:
        """Return the user's treebank, if it is a file; without a treebank, the texts of the atlas's tasks."""
        if settings := self.study.atlas.treebank:
            return user_files(settings.source, lambda: treebank.files(settings))
        return [self.data(task, "validation") for task in self.layout.atlas_tasks]

    def ranking_tables(self, wildcards: Any) -> list[str]:
        """Return a run's tables of the measures that rank its heads."""
        names = head_measures.tables(self.study.atlas.rankings)
        return [self.run_file(f"atlas/{name}.parquet", **wildcards) for name in names]

    # --- data

    def evaluated_elsewhere(self, wildcards: Any) -> list[str]:
        """Return tables on which other tasks are evaluated, for tasks that only the job can compare."""
        return [
            self.data(task, name)
            for task, keys in self.settings.all_leaks[wildcards.task].items()
            if keys is None
            for name in ["validation", *(f"further/{name}" for name in self.study.tasks[task].further)]
        ]

    def split_base(self, wildcards: Any) -> str:
        """Return the task's table that a job of another split needs for its classes, or to compare texts."""
        split = {"further": "validation", "test": "train"}[wildcards.kind]
        return self.data(wildcards.task, split)

    def more_splits(self, kind: str, folder: str) -> Function:
        """Return a function for the further splits, or test sets, of a run's tasks, in order."""

        def function(wildcards: Any) -> list[str]:
            names = self.settings.more_names(kind, wildcards.mixture)
            return [
                self.layout.result(folder.format(**wildcards), task, kind, f"{name}.parquet")
                for name, task in names.items()
            ]

        return function

    def tokens(self, split: str) -> Function:
        """Return a function for tokens of a split, or of its prompts, for a run's tasks in order."""

        def function(wildcards: Any) -> list[str]:
            prompted = self.settings.trains(wildcards) == "nothing"

            def folder(task: str) -> str:
                worded = prompted and kind(self.study.tasks[task]).prompts
                return (PROMPTS if worded else "tokens/{model}/{task}").format(**{**wildcards, "task": task})

            return [
                self.layout.result(folder(task), f"{split}.parquet")
                for task in self.settings.tasks(wildcards)
            ]

        return function

    def targets(self, split: str) -> Function:
        """Return a function for the tokens of a split of each of a run's `translations`."""
        return lambda wildcards: [
            self.layout.result("tokens", wildcards.model, task, f"{split}.parquet")
            for task in self.settings.translations(wildcards)
        ]

    def features(self, wildcards: Any) -> list[str]:
        """Return features of a run's tasks on texts, if its method is frozen and seeds share its encoder."""
        pretrained = self.study.models[wildcards.model].weights == PRETRAINED
        if not pretrained or self.settings.trains(wildcards) != "classifiers":
            return []
        tasks = [name for name in self.settings.tasks(wildcards) if kind(self.study.tasks[name]).pooled]
        return [self.layout.result("features", wildcards.model, f"{name}.parquet") for name in tasks]

    # --- runs

    def run_file(self, name: str, **wildcards: object) -> str:
        """Return a file of the run with these `wildcards`: model, mixture, method and seed."""
        return self.layout.result(RUN.format(**wildcards), name)

    def branch(self, name: str) -> Function:
        """Return a function for a file of the branch that a variant of training continues."""

        def function(wildcards: Any) -> str:
            variant = self.layout.variants[wildcards.method]
            run = {**wildcards, "method": variant.base}
            assert variant.delta is not None  # only plain training has none
            return self.run_file(f"branch/{named(variant.delta)}/{name}", **run)

        return function

    def source_model(self, wildcards: Any) -> list[str]:
        """Return the model whose encoder is transferred; none for the method pretrained."""
        if wildcards.method == "pretrained":
            return []
        return [self.run_file("model/classifiers.json", **wildcards)]

    def predicted(self, wildcards: Any) -> list[str]:
        """Return predictions for test sets, by a run of the mixture or by single-task runs."""
        mixtures = [wildcards.mixture]
        if wildcards.method == "single":
            mixtures = list(dict.fromkeys(self.settings.more_names("test", wildcards.mixture).values()))
        return [
            self.run_file("submission.parquet", **{**wildcards, "mixture": mixture}) for mixture in mixtures
        ]


def user_files(source: str, find: Callable[[], Iterable[Path]]) -> list[str]:
    """Return what `find` finds of a source as paths for rules; only its name if it is missing here."""
    try:
        return [workflow_path(path) for path in find()]
    except MissingError:
        return [source]


def workflow_path(path: str | Path) -> str:
    """Return the path of a user's file for rules: relative if below the working folder, else absolute."""
    absolute = os.path.abspath(path)
    relative = os.path.relpath(absolute)
    return absolute if relative.startswith(os.pardir) else relative
