"""Params of the rules, config keys and versions: functions of `wildcards`, or methods that return them."""

from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from headspec import plugins
from headspec.config import variants
from headspec.config.methods import METHODS
from headspec.config.runs import PRETRAINED, REWARMED, Run
from headspec.config.sections.task import determinants
from headspec.config.study import plain
from headspec.data import planned
from headspec.data.planned import Planned
from headspec.data.sources import readers, treebank
from headspec.errors import ConfigError, nearest
from headspec.heads import head_settings
from headspec.models.pretrained import versions
from headspec.models.pretrained.listed import Part
from headspec.pipeline.layout import Layout
from headspec.provenance import code_hash
from headspec.tasks import metrics, prompt_keys
from headspec.tasks.parts import type_of, with_parts
from headspec.tasks.registry import KINDS, kind

Values = dict[str, Any]
Function = Callable[[Any], Any]  # called by Snakemake with the wildcards of a job


class Settings:
    """Settings for the rules of a study; `plan` has the tasks as read, None in jobs on a cluster."""

    def __init__(self, layout: Layout, plan: Planned | None = None) -> None:
        self.layout, self.plan, self.study = layout, plan, layout.study
        self._version, self._model_settings = cache(self._read_version), cache(self._read_model_settings)
        self._with_parts = cache(self._read_with_parts)

    def settings(self, section: str, *keys: str) -> Values:
        """Return these keys of a section of the config."""
        values = plain(getattr(self.study, section))
        return {key: values[key] for key in keys}

    def model_settings(self, *keys: str) -> Function:
        """Return a function for keys of a job's model; `weights`, `transformer` only if drawn at random."""
        return lambda wildcards: self._model_settings(wildcards.model, keys)

    def _read_model_settings(self, model: str, keys: tuple[str, ...]) -> Values:
        values = plain(self.study.models[model])
        usual = ("weights", PRETRAINED), ("transformer", None)
        return {key: values[key] for key in keys if (key, values[key]) not in usual}

    def head_lists(self, wildcards: Any) -> dict[str, list[list[int]]]:
        """Return the lists of heads of a job's model."""
        lists, key = self.study.models[wildcards.model].heads, f"models.{wildcards.model}.heads"
        return {name: head_settings.read_head_list(lists[name], f"{key}.{name}") for name in sorted(lists)}

    def task_settings(self, *without: str) -> Function:
        """Return a function for the settings of a task that affect its data, except the keys `without`."""
        return lambda wildcards: plain(determinants(self.study.tasks[wildcards.task], "test", *without))

    def prompt_settings(self, wildcards: Any) -> Values:
        """Return the keys of a task for the method `prompted`."""
        task = self.study.tasks[wildcards.task]
        return plain(task.model_dump(include={"type", *prompt_keys.KEYS}))

    def split_settings(self, wildcards: Any) -> Values:
        """Return the settings of a task that affect one of its further splits or test sets."""
        task = self.study.tasks[wildcards.task]
        stored = getattr(task, wildcards.kind)[wildcards.name]
        values = plain(determinants(task, "further", "test", "train_examples"))
        return values | {wildcards.kind: {wildcards.name: stored}}

    def text_sources(self, runs: list[Run]) -> Function:
        """Return a function for the tasks of `runs` that share texts, as {task: task with the texts}."""
        first: dict[tuple, str] = {}  # the first task of a source
        shared = {}
        for name, task in self.study.tasks.items():
            if not task.pairs_of and (source := first.setdefault((task.source, task.subset), name)) != name:
                shared[name] = source
        for name, task in self.study.tasks.items():
            if task.pairs_of:
                shared[name] = shared.get(task.pairs_of, task.pairs_of)

        @cache
        def sources() -> Values:
            used = {task for run in runs for task in run.tasks} if shared else set()
            return {
                task: source for name, source in shared.items() if name in used for task in (source, name)
            }

        return lambda wildcards: sources()

    def training_settings(self, wildcards: Any) -> Values:
        """Return the training settings that a run's method uses."""
        values, method = dict(self._training), wildcards.method
        sections = {name: values.pop(name) for name in METHODS if name in values}
        kind_values = {
            key: values.pop(key) for each in KINDS.values() for key in each.training if key in values
        }
        if variant := self.layout.variants.get(method):
            values["sampling"] = variant.sampling
        elif method in sections:
            own = sections[method]
            values |= {key: value for key, value in own.items() if key in values}
            if own.keys() - values.keys():  # such as the rank of adapters
                values[method] = own
        kinds = [kind(self.study.tasks[task]) for task in self.tasks(wildcards)]
        trained = self.layout.trains(method) != "classifiers"
        used = {key for each in kinds for key in each.training} if trained else set()
        return values | {key: value for key, value in kind_values.items() if value and key in used}

    def trains(self, wildcards: Any) -> str:
        """Return what a run's method trains."""
        return self.layout.trains(wildcards.method)

    @cached_property
    def _training(self) -> Values:
        return plain(self.study.training.model_dump(exclude={"checkpoint_minutes"}))

    @property
    def rates(self) -> Values:
        """What decides the learning rates of training, and after a branch."""
        training, iat = self.study.training, self.study.iat
        rewarmed = (iat.peak or training.learning_rate) if iat.rate == REWARMED else None
        return {**self.settings("training", "learning_rate", "warmup", "decay"), "peak": rewarmed}

    def variant_settings(self, wildcards: Any) -> Values:
        """Return a variant's settings: its heads, their fraction, and what differs from IAT."""
        variant, study = self.layout.variants[wildcards.method], self.study
        return variants.settings(variant, study.iat, study.importance.samples, study.training.learning_rate)

    def variant_modules(self, wildcards: Any) -> list[str]:
        """Return the module that restricts a variant of training."""
        return [f"training/variants/{self.variant_settings(wildcards).get('module', 'own')}.py"]

    def tasks(self, wildcards: Any) -> list[str]:
        """Return the tasks of a run's mixture, in order; ConfigError if the study does not have it."""
        known, name = self.layout.mixtures, wildcards.mixture
        if name not in known:
            raise ConfigError(f"no mixture '{name}' in {self.study.study}.{nearest(name, known)}")
        return list(known[name])

    def translations(self, wildcards: Any) -> list[str]:
        """Return the tasks of a run whose texts the model writes."""
        return [name for name in self.tasks(wildcards) if kind(self.study.tasks[name]).writes]

    def metrics(self, wildcards: Any) -> dict[str, list[str]]:
        return {task: self.layout.metrics[task] for task in self.tasks(wildcards)}

    def all_metrics(self, wildcards: Any) -> dict[str, list[str]]:
        """Return all metrics, including those that do not compare models."""
        tasks = {name: self.study.tasks[name] for name in self.tasks(wildcards)}
        return {name: kind(task).all_metrics(task) for name, task in tasks.items()}

    def beams(self, wildcards: Any) -> dict[str, int]:
        """Return the number of beams of each task of a run that is not decoded greedily."""
        tasks = {name: self.study.tasks[name] for name in self.tasks(wildcards)}
        return {name: n for name, task in tasks.items() if (n := kind(task).beams(task)) > 1}

    def main_metrics(self, wildcards: Any) -> dict[str, str]:
        return {task: self.layout.main_metrics[task] for task in self.tasks(wildcards)}

    def with_kinds(self, wildcards: Any, roots: tuple[str, ...]) -> tuple[str, ...]:
        """Return roots of a job's code with what this loads by name: parts of kinds of tasks, and plugins."""
        tasks = self.study.tasks
        named = [*self.layout.mixtures.get(wildcards.get("mixture"), ()), wildcards.get("task")]
        used = [tasks[name] for name in named if name in tasks] or [*tasks.values()]
        types = tuple(dict.fromkeys(task.type for task in used))
        names = frozenset(metric for task in used for metric in kind(task).all_metrics(task))
        # no task has the texts of a measure; they are read as if they had scores
        roots = self._with_parts(roots, types, names, (type_of(None),) if wildcards.get("texts") else ())
        return (*roots, *plugins.registering()) if code_hash.reach(roots, plugins.REGISTER) else roots

    def _read_with_parts(
        self, roots: tuple[str, ...], types: tuple[str, ...], names: frozenset[str], more: tuple[str, ...]
    ) -> tuple[str, ...]:
        roots = with_parts(roots, tuple(dict.fromkeys((*types, *more))))
        others = metrics.roots(names, types) if "METRICS" in code_hash.parts(roots) else []
        return (*roots, *others)

    def vocabulary_settings(self, wildcards: Any) -> Values:
        """Return size and languages of a vocabulary."""
        made = self.study.models[wildcards.model].transformer
        tasks = [self.study.tasks[task] for task in self.learnt_tasks]
        languages = {language for task in tasks for language in kind(task).languages(task)}
        return {"languages": sorted(languages), "size": made.vocabulary if made else 0}

    @cached_property
    def learnt_tasks(self) -> list[str]:
        return list(self.study.in_order([task for run in self.study.runs for task in run.tasks]))

    @cached_property
    def all_leaks(self) -> dict[str, dict[str, list[int] | None]]:
        return planned.leaks(self.study, self.plan or planned.prepare_tasks(self.study))

    def leaks(self, wildcards: Any) -> dict[str, list[int]]:
        """Return the training rows of a task on which other tasks are evaluated, by other task."""
        return {o: keys for o, keys in self.all_leaks[wildcards.task].items() if keys is not None}

    def more_names(self, kind: str, mixture: str) -> dict[str, str]:
        """Return the task of each further split, or prediction file of a test set (`kind`), of a mixture."""
        tasks = self.layout.mixtures[mixture]
        return {name: task for task in tasks for name in getattr(self.study.tasks[task], kind)}

    # --- versions

    def source_version(self, wildcards: Any) -> str:
        """Return the version of a task's source, if it is in a package or on the hub."""
        task = self.study.tasks[wildcards.task]
        packaged = str(task.source).startswith("package:")
        more = [getattr(task, wildcards.kind)[wildcards.name]] if wildcards.get("kind") else []
        return readers.version(task.source or "", readers.local_files(task, *more) if packaged else ())

    def weights_version(self, wildcards: Any) -> str:
        """Return the version of the config and weights of a pretrained model."""
        return self._version("weights", wildcards.model)

    def tokenizer_version(self, wildcards: Any) -> str:
        """Return the version of the config and tokenizer of a pretrained model."""
        return self._version("tokenizer", wildcards.model)

    def _read_version(self, part: Part, model: str) -> str:
        results = Path(self.layout.result("tokens", model))
        return versions.version(self.study.models[model], f"models.{model}", part, results)

    def treebank_version(self, wildcards: Any) -> str:
        """Return the version of the treebank, as for other sources."""
        settings = self.study.atlas.treebank
        return readers.version(settings.source, treebank.files(settings, "package:")) if settings else ""
