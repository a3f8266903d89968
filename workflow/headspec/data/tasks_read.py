"""The tasks of a study prepared as in jobs, as far as planning can read them."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from headspec.config.study import Study
from headspec.data import overlap, prepare, quality, reading_report
from headspec.data.prepare import PAIR_CLASSES, Prepared, Source
from headspec.data.sources import source_cache
from headspec.errors import DataError
from headspec.provenance.hashes import FOLDER
from headspec.tasks.registry import kind


@dataclass
class TasksRead:
    """The tasks that planning can read; tasks on the hub are read by jobs.

    Attributes
    ----------
    sources : source of each task without `pairs_of`; without texts if it was in the cache
    evaluated : evaluation examples of each task, including further splits, with keys
    prepared : tables of each task; without texts if its source was in the cache
    leaking : for each task in `sources`, other tasks that are evaluated on some of its training rows, and
        the sorted keys of these rows
    """

    sources: dict[str, Source] = field(default_factory=dict)
    evaluated: dict[str, pd.DataFrame] = field(default_factory=dict)
    prepared: dict[str, Prepared] = field(default_factory=dict)
    leaking: dict[str, dict[str, list[int]]] = field(default_factory=dict)

    def report_lines(self, study: Study) -> list[str]:
        """Return a line for each split of the tasks, with its rows, those left out, and its classes."""
        found = []
        for name, prepared in self.prepared.items():
            task, source = study.tasks[name], self.sources.get(name)
            further = source.further if source else {}
            more = {
                split: held.counts | {"examples": len(held.rows[: task.validation_examples])}
                for split, held in further.items()
            }
            found += reading_report.facts(name, task, prepared.counts | more, source)
        return found

    def warnings(self, study: Study) -> list[str]:
        """Return a line for each warning about the splits, classes and rows of the tasks."""
        lines: list[Iterable[str]] = []
        for name, source in self.sources.items():
            task = study.tasks[name]
            lines += [reading_report.odd(name, task, source)]
            lines += [kind(task).notes(f"tasks.{name}", task, source.classes)]  # jobs do not load kinds
        qualities = {name: source.quality for name, source in self.sources.items()}
        cut = [quality.cut(name, model.max_length, qualities) for name, model in study.models.items()]
        return [*itertools.chain(*lines, *cut)]


def prepare_tasks(study: Study, folder: Path = FOLDER) -> TasksRead:
    """Prepare the tasks that need no network, with a cache in `folder`; raise all DataErrors as one."""
    plan, problems = prepare_possible(study, folder)
    if problems:
        raise DataError.combined(problems)
    return plan


def prepare_possible(study: Study, folder: Path = FOLDER) -> tuple[TasksRead, list[DataError]]:
    """Prepare the tasks that have no problem, and return the problems of the remaining ones."""
    plan = TasksRead()
    problems: list[DataError] = []
    validation: dict[str, tuple[pd.DataFrame, dict[str, int]]] = {}
    parents_first = sorted(study.tasks.items(), key=lambda item: item[1].pairs_of is not None)
    for name, task in parents_first:
        try:
            if task.pairs_of in validation:
                split = prepare.pair_split(name, "validation", validation[task.pairs_of][0], study.data_seed)
            elif readable(study, name) and not task.pairs_of:
                plan.sources[name] = source_cache.read_source(
                    study.study, name, task, study.data_seed, folder
                )
                split = plan.sources[name].validation
            else:
                continue
            validation[name] = prepare.validation_table(name, task, split, study.data_seed)
            plan.evaluated[name] = pd.concat([validation[name][0], *_further(study, name, plan)])
        except DataError as error:
            problems.append(error)
    together = trained_together(study)
    for name in validation:
        try:
            if (prepared := _train(study, name, plan, validation[name], together[name])) is not None:
                plan.prepared[name] = prepared
        except DataError as error:
            problems.append(error)
    problems += map(DataError, _seen_in_mixtures(study, plan.prepared))
    return plan, problems


def _further(study: Study, name: str, plan: TasksRead) -> Iterator[pd.DataFrame]:
    if name in plan.sources:
        for other, split in plan.sources[name].further.items():
            yield prepare.further_examples(name, study.tasks[name], other, split.rows, study.data_seed)


def _train(
    study: Study,
    name: str,
    plan: TasksRead,
    validation: tuple[pd.DataFrame, dict[str, int]],
    together: list[str],
) -> Prepared | None:
    """Return a task's tables, given the tasks of `trained_together`, or None if its parent has a problem."""
    task, source = study.tasks[name], plan.sources.get(name)
    if source is not None:
        split, classes = source.train, source.classes
    elif task.pairs_of in plan.prepared:
        split = prepare.pair_split(name, "train", plan.prepared[task.pairs_of].train, study.data_seed)
        classes = PAIR_CLASSES
    else:
        return None
    others = [other for other in together if other in plan.evaluated]
    seen = {other: overlap.occurs(split.rows, plan.evaluated[other]) for other in others}
    if source is not None:
        keys = overlap.row_keys(split.rows)
        plan.leaking[name] = {o: sorted({*keys[mask].tolist()}) for o, mask in seen.items() if mask.any()}
    train, counts, leaks = prepare.train_table(name, task, split, study.data_seed, seen)
    return Prepared(train, validation[0], {"train": counts, "validation": validation[1]}, classes, leaks)


def _seen_in_mixtures(study: Study, prepared: dict[str, Prepared]) -> Iterator[str]:
    """Yield problems of `transfer.tasks` whose training texts are also in a mixture."""
    if set(study.transfer.methods) <= {"pretrained"}:
        return
    mixtures = study.mixture_tasks
    learnt = [(member, mixture) for mixture in study.iat.mixtures for member in mixtures[mixture]]
    for (i, name), (member, mixture) in itertools.product(enumerate(study.transfer.tasks), learnt):
        if name in prepared and member in prepared:
            train = prepared[name].train
            n = int(overlap.occurs(train, prepared[member].train).sum())
            if n > overlap.MOST * len(train):
                yield (
                    f"transfer.tasks.{i}: got '{name}', of whose {len(train)} training examples {n} have "
                    f"texts of '{member}', a task of '{mixture}' in iat.mixtures; expected a task that no "
                    "encoder has seen."
                )


def readable(study: Study, name: str) -> bool:
    """Return whether a task's texts are in local files or in a package."""
    task = study.tasks[name]
    return not str(study.tasks[task.pairs_of].source if task.pairs_of else task.source).startswith("hub:")


def trained_together(study: Study) -> dict[str, list[str]]:
    """Return, for each task, the others whose evaluation examples it must not train on.

    The two share a mixture, or one is in a mixture of `iat` and the other in `transfer`. Pair tasks count as
    the task of their texts.
    """
    together = [set(itertools.combinations(members, 2)) for members in study.mixture_tasks.values()]
    for mixture in study.iat.mixtures:
        together.append(set(itertools.product(study.mixture_tasks[mixture], study.transfer.tasks)))
    family = {name: task.pairs_of or name for name, task in study.tasks.items()}
    by_task: dict[str, set[str]] = {name: set() for name in study.tasks}
    for one, other in set().union(*together):
        if family[one] != family[other]:
            by_task[family[one]].add(other)
            by_task[family[other]].add(one)
    return {name: [t for t in study.tasks if t in others] for name, others in by_task.items()}


def leaks(study: Study, plan: TasksRead) -> dict[str, dict[str, list[int] | None]]:
    """Return, for each task, the sorted keys of its training rows on which each other task is evaluated.

    Keys are None where only jobs can compare the tasks. Tasks without common rows are left out.
    """
    return {
        name: {
            other: keys
            for other in others
            if (keys := plan.leaking.get(name, {}).get(other))
            or not (readable(study, name) and readable(study, other))
        }
        for name, others in trained_together(study).items()
    }
