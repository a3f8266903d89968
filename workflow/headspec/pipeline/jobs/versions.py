"""Params with the versions of users' texts, files and models that a job reads, by content."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

from headspec.config.sources import locate
from headspec.data.sources import readers
from headspec.data.sources import treebank as bank
from headspec.errors import MissingError
from headspec.models.pretrained import folders
from headspec.models.pretrained.model_files import Part
from headspec.pipeline.jobs.job import Job
from headspec.pipeline.layout import Layout


def source(job: Job) -> str:
    """Return the version of a task's source; empty for pairs, which are made from another task's table."""
    wildcards = job.wildcards
    more = [getattr(job.task, wildcards.section)[wildcards.name]] if wildcards.get("section") else []
    return _task_version(job.layout, wildcards.task, *more)


@cache
def _task_version(layout: Layout, name: str, *more: str) -> str:
    task = layout.study.tasks[name]
    return _source_version(task.source, lambda: readers.files(task, *more))


def treebank(job: Job) -> str:
    """Return the version of the treebank, as for other sources."""
    return _treebank_version(job.layout) if job.study.atlas.treebank else ""


@cache
def _treebank_version(layout: Layout) -> str:
    settings = layout.study.atlas.treebank
    assert settings is not None
    return _source_version(settings.source, lambda: bank.files(settings))


def user_file(job: Job, section: str, key: str) -> str:
    """Return the version of the file in a config key; empty without one."""
    return _user_file_version(job.layout, section, key)


@cache
def _user_file_version(layout: Layout, section: str, key: str) -> str:
    given = getattr(getattr(layout.study, section), key)
    return _source_version(given, lambda: [locate(given, f"{section}.{key}")])


def _source_version(source: str | None, files: Callable[[], list[Path]]) -> str:
    """Return the version of a source; empty without one, or if it is missing, as checks have reported."""
    try:
        return readers.version(source, files()) if source else ""
    except MissingError:
        return ""


def weights(job: Job) -> str:
    """Return the version of the config and weights of a pretrained model."""
    return _version(job.layout, "weights", job.wildcards.model)


def tokenizer(job: Job) -> str:
    """Return the version of the config and tokenizer of a pretrained model."""
    return _version(job.layout, "tokenizer", job.wildcards.model)


@cache
def _version(layout: Layout, part: Part, model: str) -> str:
    results = Path(layout.result("tokens", model))
    return folders.version(layout.study.models[model], f"models.{model}", part, results)
