"""The tasks of a study as its jobs will prepare them, as far as they can be read while planning."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from headspec import overlap, source_records, tasks
from headspec.errors import DataError
from headspec.source_records import FOLDER
from headspec.study import Study
from headspec.tasks import PAIR_CLASSES, Prepared, Source


@dataclass
class Planned:
    """What is known of a study's tasks; those on the hub, which only jobs read, are missing.

    Attributes
    ----------
    sources : name: what its source holds; not of tasks made with `pairs_of`
    evaluated : name: the examples, with keys, on which it is evaluated, further splits among them
    prepared : name: its tables, without texts
    leaking
        Name, of `sources`: other task that is evaluated on training rows of it: the keys of these, sorted.
    """

    sources: dict[str, Source] = field(default_factory=dict)
    evaluated: dict[str, pd.DataFrame] = field(default_factory=dict)
    prepared: dict[str, Prepared] = field(default_factory=dict)
    leaking: dict[str, dict[str, list[int]]] = field(default_factory=dict)


def check(study: Study) -> dict[str, Prepared]:
    """The tasks that need no network, so that no job starts on data that will not do.

    Returns
    -------
    prepared : name: the task, of those, without texts

    Raises
    ------
    DataError
        With one line for every problem found.
    """
    return read(study).prepared


def read(study: Study, folder: Path = FOLDER) -> Planned:
    """The tasks that need no network; DataError as `check`. Records of what is read are in `folder`."""
    found = Planned()
    problems: list[DataError] = []
    held: dict[str, tuple[pd.DataFrame, dict[str, int]]] = {}
    for name, task in _parents_first(study):
        try:
            if task.pairs_of in held:
                split = tasks.pairs(name, "validation", held[task.pairs_of][0], study.data_seed)
            elif readable(study, name) and not task.pairs_of:
                found.sources[name] = source_records.source(study.study, name, task, study.data_seed, folder)
                split = found.sources[name].validation
            else:
                continue
            held[name] = tasks.validation(name, task, split, study.data_seed)
            found.evaluated[name] = pd.concat([held[name][0], *_further(study, name, found)])
        except DataError as error:
            problems.append(error)
    for name in held:
        try:
            if (prepared := _train(study, name, found, held[name])) is not None:
                found.prepared[name] = prepared
        except DataError as error:
            problems.append(error)
    problems += map(DataError, _seen(study, found.prepared))
    if problems:
        raise DataError.of(problems)
    return found


def _parents_first(study: Study) -> list:
    return sorted(study.tasks.items(), key=lambda item: item[1].pairs_of is not None)


def _further(study: Study, name: str, found: Planned) -> Iterator[pd.DataFrame]:
    if name in found.sources:
        for other, split in found.sources[name].further.items():
            yield tasks.further_examples(name, study.tasks[name], other, split.rows, study.data_seed)


def _train(
    study: Study, name: str, found: Planned, held: tuple[pd.DataFrame, dict[str, int]]
) -> Prepared | None:
    """A task's tables; none where those of the task that its pairs come from will not do."""
    task, own = study.tasks[name], found.sources.get(name)
    if own is not None:
        split, classes = own.train, own.classes
    elif task.pairs_of in found.prepared:
        split = tasks.pairs(name, "train", found.prepared[task.pairs_of].train, study.data_seed)
        classes = PAIR_CLASSES
    else:
        return None
    known = [other for other in mates(study)[name] if other in found.evaluated]
    seen = {other: overlap.occurs(split.rows, found.evaluated[other]) for other in known}
    if own is not None:
        keys = overlap.rows(split.rows)
        found.leaking[name] = {o: sorted({*keys[mask].tolist()}) for o, mask in seen.items() if mask.any()}
    train, counts, leaks = tasks.train(name, task, split, study.data_seed, seen)
    return Prepared(train, held[0], {"train": counts, "validation": held[1]}, classes, leaks)


def _seen(study: Study, prepared: dict[str, Prepared]) -> Iterator[str]:
    """Tasks of `transfer` whose training examples are in a mixture's, so that they are no new task."""
    if set(study.transfer.methods) <= {"pretrained"}:
        return
    mixtures = study.mixture_tasks
    learnt = [(member, mixture) for mixture in study.iat.mixtures for member in mixtures[mixture]]
    for (i, name), (member, mixture) in itertools.product(enumerate(study.transfer.tasks), learnt):
        if name in prepared and member in prepared:
            own = prepared[name].train
            n = int(overlap.occurs(own, prepared[member].train).sum())
            if n > overlap.MOST * len(own):
                yield (
                    f"transfer.tasks.{i}: got '{name}', of whose {len(own)} training examples {n} have texts "
                    f"of '{member}', a task of '{mixture}' in iat.mixtures; expected a task that no encoder "
                    "has seen."
                )


def readable(study: Study, name: str) -> bool:
    """Whether the task's texts are in local files or a package."""
    task = study.tasks[name]
    return not str(study.tasks[task.pairs_of].source if task.pairs_of else task.source).startswith("hub:")


def mates(study: Study) -> dict[str, list[str]]:
    """Task: those on whose evaluation examples it must not be trained, because an encoder learns both.

    They share a mixture, or one is in a mixture of `iat` whose encoders learn the other by transfer. What a
    task of pairs must not see, the task that its texts come from must not hand on, and so the pairs of the
    latter are looked after; the two themselves have their splits in common.
    """
    together = [set(itertools.combinations(members, 2)) for members in study.mixture_tasks.values()]
    for mixture in study.iat.mixtures:
        together.append(set(itertools.product(study.mixture_tasks[mixture], study.transfer.tasks)))
    family = {name: task.pairs_of or name for name, task in study.tasks.items()}
    found: dict[str, set[str]] = {name: set() for name in study.tasks}
    for one, other in set().union(*together):
        if family[one] != family[other]:
            found[family[one]].add(other)
            found[family[other]].add(one)
    return {name: [t for t in study.tasks if t in others] for name, others in found.items()}


def leaks(study: Study, found: Planned) -> dict[str, dict[str, list[int] | None]]:
    """Task: other task on whose evaluation examples it would be trained: the keys of these rows, sorted.

    None where only the jobs can know. Tasks that are known to have none in common are left out, so a
    change of one task reaches another only where it changes what that one is trained on.
    """
    return {
        name: {other: keys for other in others if (keys := _leak(found, name, other)) != []}
        for name, others in mates(study).items()
    }


def _leak(found: Planned, name: str, other: str) -> list[int] | None:
    known = name in found.leaking and other in found.evaluated
    return found.leaking[name].get(other, []) if known else None
