"""Checks of the sections `iat` and `transfer` against the mixtures, methods and tasks of a config."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from headspec.config.as_text import kept_by, named
from headspec.config.methods import NAMED
from headspec.config.runs import REWARMED
from headspec.config.sections.iat import IAT
from headspec.config.sections.transfer import Transfer
from headspec.config.sources import identity
from headspec.config.variants import CONTROLS
from headspec.config.variants import method as of_kind
from headspec.errors import listing, nearest
from headspec.tasks.kinds import kind

if TYPE_CHECKING:
    from headspec.config.sections.task import Task


def iat_problems(section: IAT, methods: Any, mixtures: Iterable[str], transferred: bool) -> Iterator[str]:
    """Problems of the section `iat`.

    Parameters
    ----------
    methods : the key `methods` of the raw config
    mixtures : names of all mixtures
    transferred : whether the section `transfer` has tasks
    """
    methods = methods if isinstance(methods, list) else []
    for i, name in enumerate(section.mixtures):
        if name not in mixtures:
            hint = nearest(name, mixtures)
            yield f"iat.mixtures.{i}: no mixture '{name}'; expected one of {listing(mixtures)}.{hint}"
    if section.mixtures and "tuned" not in methods:
        yield f"methods: got {listing(methods)}, expected tuned as well, because IAT continues tuned runs."
    if methods and not {*NAMED} & {*map(str, methods)}:
        expected = f"{listing(NAMED[:-1])} or {NAMED[-1]}"
        yield f"methods: got {listing(methods)}, expected {expected} as well, whose heads are compared."
    if section != IAT() and not section.mixtures:
        yield "iat.mixtures: nothing to train; expected a mixture, because other keys of iat are set."
    elif "iat" in methods and not section.mixtures and not transferred:
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
    """Keys that have no effect, because another one is not set."""
    if section.peak is not None and section.rate != REWARMED:
        yield f"iat.peak: not used; expected iat.rate: {REWARMED}, whose peak it is."
    if section.rescorings != IAT().rescorings and "rescored" not in section.controls:
        yield "iat.rescorings: not used; expected 'rescored' in iat.controls, which they are of."
    if section.sweep_controls and not [*section.alphas, *section.deltas]:
        yield "iat.sweep_controls: not used; expected iat.alphas or iat.deltas, to sweep over."


def transfer_problems(
    section: Transfer, iat: IAT, mixtures: dict[str, list[str]], tasks: dict[str, Task | None]
) -> Iterator[str]:
    """Problems of the section `transfer`.

    Parameters
    ----------
    mixtures : mixture name: its tasks
    tasks : task name: the task; None where it cannot be read
    """
    for i, name in enumerate(section.tasks):
        if name not in tasks:
            hint = nearest(name, tasks)
            yield f"transfer.tasks.{i}: no task '{name}'; expected one of {listing(tasks)}.{hint}"
        elif leak := _leak(name, iat.mixtures, mixtures, tasks):
            yield f"transfer.tasks.{i}: got '{name}', {leak}; expected a task that no encoder has seen."
        elif (task := tasks[name]) and "transfer" in kind(task).refuses:
            yield f"transfer.tasks.{i}: got '{name}', a task {kind(task).called}; expected one on texts."
    if not section.tasks:
        if section != Transfer():
            yield "transfer.tasks: no task; expected one, because other keys of transfer are set."
        return
    trained = [method for method in section.methods if method != "pretrained"]
    if trained and not iat.mixtures:
        yield f"transfer.methods: got {listing(trained)}, expected a mixture under iat.mixtures to train on."
        return
    for method in trained:
        control = next((each for each in CONTROLS if of_kind(each) == method), None)
        if method == REWARMED != iat.rate:
            key = f"transfer.methods.{section.methods.index(method)}"
            yield f"{key}: got '{method}', expected iat.rate: {REWARMED}, to train it."
        if control and control not in iat.controls:
            key = f"transfer.methods.{section.methods.index(method)}"
            yield f"{key}: got '{method}', expected '{control}' in iat.controls, to train it."


def _leak(
    name: str, trained: list[str], mixtures: dict[str, list[str]], tasks: dict[str, Task | None]
) -> str:
    """How one of the `trained` mixtures comes to have the texts of a task; empty where none has.

    Only the config is consulted here; `headspec.data.planned` compares the texts themselves.
    """
    for mixture in trained:
        for member in mixtures.get(mixture, []):
            if member == name:
                return f"a task of '{mixture}' in iat.mixtures"
            one, other = (_base(tasks.get(task), tasks) for task in (name, member))
            if one and other and _same_texts(one, other):
                return f"which has the texts of '{member}', a task of '{mixture}' in iat.mixtures"
    return ""


def _base(task: Task | None, tasks: dict[str, Task | None]) -> Task | None:
    """The task that has the texts: the one that pairs are made of, else `task` itself."""
    return (task and tasks.get(task.pairs_of or "")) or task


def _same_texts(one: Task, other: Task) -> bool:
    """Whether two tasks train on the same split of the same source, and no filter separates their texts."""
    splits = [(task.subset, task.train_split) for task in (one, other)]
    if one.source is None or other.source is None or splits[0] != splits[1]:
        return False
    separate = any(
        not set(kept_by(one.filter[column])) & set(kept_by(other.filter[column]))
        for column in one.filter.keys() & other.filter.keys()
    )
    return not separate and identity(one.source) == identity(other.source)
