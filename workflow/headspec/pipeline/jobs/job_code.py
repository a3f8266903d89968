"""The code of a job: hashes of the files that its script imports, directly or by name."""

import itertools
from collections.abc import Callable
from functools import cache

from headspec import plugins
from headspec.pipeline.jobs.job import Job
from headspec.pipeline.layout import Layout
from headspec.provenance import code_hash
from headspec.tasks import metrics as registered_metrics
from headspec.tasks.parts import loaded_parts, type_of, with_parts
from headspec.tasks.registry import kind


def hashes(job: Job, script: str, *found_by_name: str | Callable[[Job], list[str]]) -> dict[str, str]:
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
    named = [*job.study.tasks_by_mixture.get(wildcards.get("mixture"), ()), wildcards.get("task")]
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
    return [f"training/variants/{job.retraining.module}.py"]
