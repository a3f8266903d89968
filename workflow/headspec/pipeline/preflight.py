"""Checks before any job starts: whether models and data exist and agree with the config."""

from collections.abc import Iterator
from typing import Any

from headspec.config import loading
from headspec.config.pruning_methods import PRUNING_METHODS
from headspec.config.sources import locate
from headspec.config.study import Study
from headspec.config.values import IMPORTANCE
from headspec.data import few_shot, prepare, splits, tasks_read
from headspec.data.sources import readers, sentences, treebank
from headspec.data.tasks_read import TasksRead
from headspec.errors import ConfigError, DataError, HeadspecError, MissingError, ModelError, listing
from headspec.heads import head_settings
from headspec.models.pretrained import folders
from headspec.models.pretrained import study_checks as models
from headspec.models.pretrained.folders import folder_for_planning
from headspec.prompts import checks as prompts
from headspec.similarity.brain import experiment
from headspec.tasks.registry import KINDS
from headspec.training import store


def load(config: dict[str, Any]) -> Study:
    """Return the study of a config, with text columns from tables.

    Raises ConfigError, which names missing sources as well.
    """
    try:
        study = loading.load(config)
    except ConfigError as error:
        raise ConfigError.combined([error, *_missing_sources(config, str(error))]) from None
    columns = {name: splits.text_columns(task) for name, task in study.tasks.items()}
    if not any(columns.values()):
        return study
    tasks = {name: {**task, **columns[str(name)]} for name, task in config["tasks"].items()}
    return loading.load(config | {"tasks": tasks})


def _missing_sources(config: dict[str, Any], told: str) -> Iterator[DataError]:
    """Yield missing sources of models and tasks that the errors `told` of an invalid config do not name."""
    entries = [
        (f"{section}.{name}.source", entry)
        for section in ("models", "tasks")
        if isinstance(config.get(section), dict)
        for name, entry in config[section].items()
    ]
    for key, entry in entries:
        source = entry.get("source") if isinstance(entry, dict) else None
        if isinstance(source, str) and not source.startswith("hub:") and f"{key}:" not in told:
            try:
                locate(source, key)
            except DataError as error:
                yield error


def check(study: Study) -> TasksRead:
    """Read the tasks; raise one HeadspecError with all problems of a study that cannot be run here."""
    plan, errors = problems(study)
    if errors:
        raise HeadspecError.combined(errors)
    return plan


def unavailable(study: Study) -> list[HeadspecError]:
    """Return errors for models and texts on the hub that are neither cached nor reachable."""
    problems: list[HeadspecError] = []
    for name, model in study.models.items():
        try:
            if model.source.startswith("hub:"):
                folder_for_planning(model, f"models.{name}")
        except ModelError as error:
            problems.append(error)
    for name, task in study.tasks.items():
        try:
            if str(task.source).startswith("hub:") and folders.hub_unreachable():
                with folders.asked_once(task.source):
                    readers.splits(task, f"tasks.{name}")
        except DataError as error:
            problems.append(error)
    return problems


def check_gpus(study: Study, usable: int) -> None:
    """Raise ConfigError if a model is to have more than the `usable` GPUs."""
    problems = [
        ConfigError(
            f"models.{name}.gpus: got {model.gpus}, but jobs may use {usable} here; "
            f"expected at most {usable}, or --resources gpu={model.gpus} on a machine with as many GPUs"
        )
        for name, model in study.models.items()
        if model.gpus > usable
    ]
    if problems:
        raise ConfigError.combined(problems)


def _atlas(study: Study, plan: TasksRead) -> None:
    """Raise HeadspecError if the atlas lacks runs or sentences, unless its keys are only for `gates`."""
    for_gates = any(
        method != IMPORTANCE and PRUNING_METHODS[method].chosen == "ranked"
        for method in study.gates.pruning_methods
    )
    if "atlas" not in study.methods and (for_gates or study.atlas == type(study.atlas)()):
        return
    if not study.atlas_runs:
        trained = dict.fromkeys(f"{run.method} {run.mixture}" for run in study.runs)
        raise HeadspecError(
            f"atlas.methods: no run has method {listing(study.atlas.methods)}"
            + (f" and mixture {listing(study.atlas.mixtures)}" if study.atlas.mixtures else "")
            + f"; the study trains {listing(trained)}"
        )
    sentences_for_roles(study, plan)


def sentences_for_roles(study: Study, plan: TasksRead) -> None:
    """Raise DataError if there is no treebank and the atlas's validation texts have too few sentences.

    Nothing is read if a task cannot be read, or there are enough texts; one-word texts are left to the job.
    """
    tasks = study.in_order([task for run in study.atlas_runs for task in run.tasks])
    examples = [plan.prepared[task].validation for task in tasks if task in plan.prepared]
    if study.atlas.treebank or len(examples) < len(tasks) or sum(map(len, examples)) >= treebank.FEWEST:
        return
    texts = {}
    for task in tasks:
        settings = study.tasks[task]
        parent = None
        if name := settings.pairs_of:
            parent = prepare.prepare(name, study.tasks[name], study.data_seed)
        texts[task] = prepare.prepare(task, settings, study.data_seed, parent).validation
    treebank.from_texts(texts)


def missing(study: Study) -> tuple[TasksRead, list[HeadspecError]]:
    """Read the tasks; also return errors for missing files. Others are raised as in `check`."""
    plan, errors = problems(study)
    if not all(isinstance(error, MissingError) for error in errors):
        raise HeadspecError.combined(errors)
    return plan, errors


def _prompts(study: Study, plan: TasksRead) -> None:
    """Raise HeadspecError if models cannot be prompted with the tasks."""
    worded = {name for name, task in study.tasks.items() if KINDS[task.type].prompts}
    prompts.check_prompts(study, {name: read for name, read in plan.prepared.items() if name in worded})


def problems(study: Study) -> tuple[TasksRead, list[HeadspecError]]:
    """Read the tasks; also return all problems with models and data that show without a network."""
    plan = TasksRead()

    def read_tasks(study: Study) -> None:
        nonlocal plan
        plan, errors_of_tasks = tasks_read.prepare_possible(study)
        if errors_of_tasks:
            raise HeadspecError.combined(errors_of_tasks)

    errors: list[HeadspecError] = []
    for check in (
        models.check_models,
        models.check_languages,
        head_settings.check_head_counts,
        head_settings.check_head_lists,
        read_tasks,
        lambda study: _prompts(study, plan),
        lambda study: few_shot.check_draws(study, plan.prepared),
        sentences.check_sentences,
        treebank.check_treebank,
        lambda study: _atlas(study, plan),
        experiment.check_experiment,
        lambda study: store.check(),
    ):
        try:
            check(study)
        except HeadspecError as error:
            errors += error.errors
    return plan, errors
