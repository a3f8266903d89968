"""Checks of the sections `iat` and `transfer` against the mixtures, methods and tasks of a study."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headspec.config.checks import names
from headspec.config.methods import NAMED
from headspec.config.runs import REWARMED
from headspec.config.sections.iat import IAT, Transfer
from headspec.config.sections.task import Task
from headspec.config.sources import identity
from headspec.config.values import kept_by, named
from headspec.config.variants import CONTROLS
from headspec.config.variants import method as method_of_control
from headspec.errors import listing
from headspec.tasks.registry import kind

if TYPE_CHECKING:
    from headspec.config.study import Study


def iat_problems(study: Study) -> Iterator[str]:
    """Yield the problems of the section `iat`."""
    section, methods = study.iat, study.methods
    yield from names.unknown("iat.mixtures", section.mixtures, study.mixture_tasks, "mixture")
    if section.mixtures and "tuned" not in methods:
        yield f"methods: got {listing(methods)}, expected tuned as well, because IAT continues tuned runs."
    if methods and not {*NAMED} & {*methods}:
        expected = f"{listing(NAMED[:-1])} or {NAMED[-1]}"
        yield f"methods: got {listing(methods)}, expected {expected} as well, whose heads are compared."
    if section != IAT() and not section.mixtures:
        yield "iat.mixtures: nothing to train; expected a mixture, because other keys of iat are set."
    elif "iat" in methods and not section.mixtures and not study.transfer.tasks:
        yield "iat.mixtures: nothing to train; expected a mixture, because methods has 'iat'."
    yield from _unused(section)
    for key, main in {"alphas": section.alpha, "deltas": section.delta}.items():
        for i, value in enumerate(getattr(section, key)):
            if value != main and named(value) == named(main):
                yield f"iat.{key}.{i}: got {value}, whose runs have the name of {main}; expected another."
    keys = {"iat.delta": section.delta} | {f"iat.deltas.{i}": delta for i, delta in enumerate(section.deltas)}
    for key, delta in keys.items():
        if section.mixtures and delta > section.reserve:
            yield f"{key}: got {delta:g}, expected at most iat.reserve ({section.reserve:g})."


def _unused(section: IAT) -> Iterator[str]:
    """Yield problems of keys that have no effect because another one is not set."""
    if section.peak is not None and section.rate != REWARMED:
        yield f"iat.peak: not used; expected iat.rate: {REWARMED}, whose peak it is."
    if section.rescorings != IAT().rescorings and "rescored" not in section.controls:
        yield "iat.rescorings: not used; expected 'rescored' in iat.controls, which they are of."
    if section.sweep_controls and not [*section.alphas, *section.deltas]:
        yield "iat.sweep_controls: not used; expected iat.alphas or iat.deltas, to sweep over."


def transfer_problems(study: Study) -> Iterator[str]:
    """Yield the problems of the section `transfer`."""
    section, iat = study.transfer, study.iat
    yield from names.unknown("transfer.tasks", section.tasks, study.tasks, "task")
    for i, name in enumerate(section.tasks):
        if name not in study.tasks:
            continue
        if leak := _leak(name, study):
            yield f"transfer.tasks.{i}: got '{name}', {leak}; expected a task that no encoder has seen."
        elif "transfer" in kind(study.tasks[name]).refuses:
            called = kind(study.tasks[name]).called
            yield f"transfer.tasks.{i}: got '{name}', a task {called}; expected one on texts."
    if not section.tasks:
        if section != Transfer():
            yield "transfer.tasks: no task; expected one, because other keys of transfer are set."
        return
    trained = [method for method in section.methods if method != "pretrained"]
    if trained and not iat.mixtures:
        yield f"transfer.methods: got {listing(trained)}, expected a mixture under iat.mixtures to train on."
        return
    needed = {
        method_of_control(name): f"'{name}' in iat.controls" for name in CONTROLS if name not in iat.controls
    }
    if iat.rate != REWARMED:
        needed[REWARMED] = f"iat.rate: {REWARMED}"
    for i, method in enumerate(section.methods):
        if method in needed:
            yield f"transfer.methods.{i}: got '{method}', expected {needed[method]}, to train it."


def _leak(name: str, study: Study) -> str:
    """Return how a trained mixture comes to have a task's texts, by the config alone; else ""."""
    for mixture in study.iat.mixtures:
        for member in study.mixture_tasks.get(mixture, ()):
            if member == name:
                return f"a task of '{mixture}' in iat.mixtures"
            if _same_texts(*(_base(study.tasks[task], study.tasks) for task in (name, member))):
                return f"which has the texts of '{member}', a task of '{mixture}' in iat.mixtures"
    return ""


def _base(task: Task, tasks: dict[str, Task]) -> Task:
    """Return the task that has the texts: the one that pairs are made of, or `task` itself."""
    return tasks.get(task.pairs_of or "") or task


def _same_texts(one: Task, other: Task) -> bool:
    """Return whether two tasks train on the same split of a source, and no filter separates their texts."""
    splits = [(task.subset, task.train_split) for task in (one, other)]
    if one.source is None or other.source is None or splits[0] != splits[1]:
        return False
    separate = any(
        not set(kept_by(one.filter[column])) & set(kept_by(other.filter[column]))
        for column in one.filter.keys() & other.filter.keys()
    )
    return not separate and identity(one.source) == identity(other.source)
