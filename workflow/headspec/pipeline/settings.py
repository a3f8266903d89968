"""Params of rules as functions of a job: config keys and hashes of code; `versions` has the rest."""

import itertools
from collections.abc import Callable
from functools import cache
from typing import Any

from headspec import plugins
from headspec.config import variants
from headspec.config.measures.heads import MEASURES
from headspec.config.methods import METHODS
from headspec.config.runs import PRETRAINED, REWARMED, Run
from headspec.config.sections.task import Task, determinants
from headspec.config.sources import identity
from headspec.config.study import Study, plain
from headspec.config.values import RANDOM
from headspec.data import planned
from headspec.heads import head_settings
from headspec.pipeline.job import Job
from headspec.pipeline.layout import Layout
from headspec.pipeline.versions import place
from headspec.provenance import code_hash
from headspec.tasks import metrics as registered_metrics
from headspec.tasks import prompt_keys
from headspec.tasks.parts import loaded_parts, type_of, with_parts
from headspec.tasks.registry import KINDS, kind

Values = dict[str, Any]

# --- sections and keys


def section(study: Study, name: str, *keys: str) -> Values:
    """Return these keys of a section of the config."""
    values = plain(getattr(study, name))
    return {key: values[key] for key in keys}


def model(job: Job, *keys: str) -> Values:
    """Return keys of a job's model; those of `usual` only if they are not the defaults."""
    values = plain(job.model)
    values["source"] = place(values["source"])
    usual = ("weights", PRETRAINED), ("transformer", None), ("quantization", None)
    return {key: values[key] for key in keys if (key, values[key]) not in usual}


def random_model(job: Job, *keys: str) -> Values:
    """Return keys of a job's model, with random weights."""
    return model(job, *keys) | {"weights": RANDOM}


def head_lists(job: Job) -> dict[str, list[list[int]]]:
    """Return the lists of heads of a job's model."""
    lists, key = job.model.heads, f"models.{job.wildcards.model}.heads"
    return {name: head_settings.read_head_list(lists[name], f"{key}.{name}") for name in sorted(lists)}


def task(job: Job, *without: str) -> Values:
    """Return the settings of a task that affect its data, except the keys `without`."""
    values: Values = plain(determinants(job.task, "test", *without))
    return values | {"source": place(values["source"])}


def prompt(job: Job) -> Values:
    """Return the keys of a task for the method `prompted`."""
    return _prompt(job.task)


def _prompt(task: Task) -> Values:
    values: Values = plain(task.model_dump(include={"type", *prompt_keys.KEYS}))
    asked = kind(task).asked(task)
    return values | ({"asked": asked} if asked else {})


def behaviour_prompts(job: Job) -> dict[str, Values | None]:
    """Return the prompt of each task of a run, if a behaviour of heads reads answers.

    It is None if the behaviour reads texts alone; empty if it reads no task.
    """
    reads = MEASURES[job.wildcards.measure].reads
    return {name: _prompt(each) if reads == "answers" else None for name, each in job.tasks.items() if reads}


def split(job: Job) -> Values:
    """Return the settings of a task that affect one of its further splits or test sets."""
    values: Values = plain(determinants(job.task, "further", "test", "train_examples"))
    stored = getattr(job.task, job.wildcards.section)[job.wildcards.name]
    return values | {"source": place(values["source"]), job.wildcards.section: {job.wildcards.name: stored}}


def training(job: Job) -> Values:
    """Return the training settings that a run's method uses."""
    values, method = _training(job.layout), job.wildcards.method
    sections = {name: values[name] for name in METHODS if name in values}
    by_kind = {key for each in KINDS.values() for key in each.training}
    values = {key: value for key, value in values.items() if key not in sections and key not in by_kind}
    if variant := job.layout.variants.get(method):
        values["sampling"] = variant.sampling
    elif method in sections:
        own = sections[method]
        values |= {key: value for key, value in own.items() if key in values}
        if own.keys() - values.keys():  # such as the rank of adapters
            values[method] = own
    trained = job.tasks.values() if job.trains != "classifiers" else ()
    used = {key for each in trained for key in kind(each).training}
    return values | {key: value for key, value in _training(job.layout).items() if key in used and value}


@cache
def _training(layout: Layout) -> Values:
    values: Values = plain(layout.study.training.model_dump(exclude={"checkpoint_minutes"}))
    return values


def rates(study: Study) -> Values:
    """Return what determines the learning rates of training, and after a branch."""
    rewarmed = (study.iat.peak or study.training.learning_rate) if study.iat.rate == REWARMED else None
    return {**section(study, "training", "learning_rate", "warmup", "decay"), "peak": rewarmed}


def variant(job: Job) -> Values:
    """Return a variant's settings: its heads, their fraction, and its differences from IAT."""
    study = job.study
    return variants.settings(job.variant, study.iat, study.importance.samples, study.training.learning_rate)


def treebank(job: Job) -> Values | None:
    """Return the section of the treebank."""
    settings: Values | None = plain(job.study.atlas.treebank)
    return settings and settings | {"source": place(settings["source"])}


def user_file(job: Job, section: str, key: str) -> str | None:
    """Return the path of the file in a config key, if it has one."""
    return place(getattr(getattr(job.study, section), key))


def vocabulary(job: Job) -> Values:
    """Return the size and languages of a vocabulary."""
    learnt = [job.study.tasks[name] for name in job.layout.learnt_tasks]
    languages = {language for each in learnt for language in kind(each).languages(each)}
    made = job.model.transformer
    return {"languages": sorted(languages), "size": made.vocabulary if made else 0}


# --- tasks of a run


def tasks(job: Job) -> list[str]:
    """Return the names of the tasks of a run's mixture, in order."""
    return list(job.tasks)


def trains(job: Job) -> str:
    """Return what a run's method trains."""
    return job.trains


def translations(job: Job) -> list[str]:
    """Return the tasks of a run whose texts the model writes."""
    return job.translations


def names(job: Job, split: str) -> dict[str, str]:
    """Return the task of each further split, or prediction file, of a run's mixture."""
    return job.names(split)


def main_metrics(job: Job) -> dict[str, str]:
    """Return the main metric of each task of a run."""
    return {name: job.layout.main_metrics[name] for name in job.tasks}


def beams(job: Job) -> dict[str, int]:
    """Return the number of beams for each of a run's tasks that is not decoded greedily."""
    return {name: n for name, each in job.tasks.items() if (n := kind(each).beams(each)) > 1}


# --- texts that tasks share


def text_sources(job: Job, runs: list[Run]) -> dict[str, str]:
    """Return the tasks of `runs` that share texts, {task: task with the texts}."""
    shared = _shared_texts(job.layout)
    used = {name for run in runs for name in run.tasks} if shared else set()
    return {each: source for name, source in shared.items() if name in used for each in (source, name)}


@cache
def _shared_texts(layout: Layout) -> dict[str, str]:
    """Return the task whose texts each other task shares."""
    first: dict[tuple[Any, ...], str] = {}  # the first task of a source
    shared = {}
    for name, each in layout.study.tasks.items():
        if each.pairs_of:
            continue
        if (source := first.setdefault((identity(str(each.source)), each.subset), name)) != name:
            shared[name] = source
    for name, each in layout.study.tasks.items():
        if each.pairs_of:
            shared[name] = shared.get(each.pairs_of, each.pairs_of)
    return shared


def leaks(job: Job) -> dict[str, list[int]]:
    """Return, by other task, the training rows of a task on which that task is evaluated."""
    return {other: rows for other, rows in _leaks(job.layout)[job.wildcards.task].items() if rows is not None}


def unread_leaks(job: Job) -> list[str]:
    """Return the other tasks whose evaluation rows only the job can compare."""
    return [other for other, rows in _leaks(job.layout)[job.wildcards.task].items() if rows is None]


@cache
def _leaks(layout: Layout) -> dict[str, dict[str, list[int] | None]]:
    return planned.leaks(layout.study, layout.planned or planned.prepare_tasks(layout.study))


# --- code


def code(job: Job, script: str, *found_by_name: str | Callable[[Job], list[str]]) -> dict[str, str]:
    """Return hashes of the files that a rule's script reaches, by root.

    `found_by_name` is what the script imports dynamically: modules of the library (paths, with wildcards, or
    functions of a job that return several). Parts of the kinds of a job's tasks are included, too.
    """
    by_rule = [f(job) if callable(f) else [f.format(**job.wildcards)] for f in found_by_name]
    named = [code_hash.LIBRARY / name for name in itertools.chain.from_iterable(by_rule)]
    roots = [code_hash.LIBRARY.parent / "scripts" / script, *named]
    return _hashes(job.layout, with_kinds(job, tuple(map(str, roots))))


@cache
def _hashes(layout: Layout, roots: tuple[str, ...]) -> dict[str, str]:
    return code_hash.by_root(roots)


def with_kinds(job: Job, roots: tuple[str, ...]) -> tuple[str, ...]:
    """Return roots of a job's code with its dynamic imports: parts of kinds of tasks, and plugins."""
    wildcards, every = job.wildcards, job.study.tasks
    named = [*job.layout.mixtures.get(wildcards.get("mixture"), ()), wildcards.get("task")]
    used = [every[name] for name in named if name in every] or [*every.values()]
    types = tuple(dict.fromkeys(each.type for each in used))
    measured = frozenset(metric for each in used for metric in each.metrics)
    functions = tuple(dict.fromkeys(name for each in used for name in kind(each).functions(each)))
    # texts for measures belong to no task; they are read as if they had scores
    more = (type_of(None),) if wildcards.get("texts") else ()
    return _with_parts(job.layout, roots, types, measured, functions, more)


@cache
def _with_parts(
    layout: Layout,
    roots: tuple[str, ...],
    types: tuple[str, ...],
    measured: frozenset[str],
    functions: tuple[str, ...],
    more: tuple[str, ...],
) -> tuple[str, ...]:
    roots = with_parts(roots, tuple(dict.fromkeys((*types, *more))))
    if functions and {"HEAD", "PROMPTS"}.intersection(loaded_parts(roots)):
        roots = (*roots, *plugins.roots(functions))
    if "METRICS" in loaded_parts(roots):
        roots = (*roots, *registered_metrics.files(measured, types))
    return (*roots, *plugins.registering()) if plugins.__file__ in code_hash.files(roots) else roots


def restriction(job: Job) -> list[str]:
    """Return the module that restricts a variant of training."""
    return [f"training/variants/{variant(job).get('module', 'own')}.py"]
