"""Checks of names in a study: each refers to something, and no two give the same folder or table value."""

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence

from headspec.config.runs import POOLED, RESERVED
from headspec.config.study import Study
from headspec.errors import listing, nearest, shown


def unknown(key: str, names: Sequence[str], valid: Collection[str], what: str) -> Iterator[str]:
    """Yield a problem for each of `names` that is not in `valid`; `what` is what they should name."""
    for i, name in enumerate(names):
        if name not in valid:
            yield f"{key}.{i}: no {what} '{name}'; expected one of {listing(valid)}.{nearest(name, valid)}"


def distinct(study: Study) -> Iterator[str]:
    """Yield a problem for each name that is reserved for tables, or repeats another (case is ignored).

    Names of models are compared with each other, and so are those of tasks, groups and further splits.
    """
    keys: dict[str, Iterable[str]] = {
        "models.": study.models,
        "tasks.": study.tasks,
        "mixtures.groups.": study.mixtures.groups,
    }
    keys |= {f"tasks.{name}.further.": task.further for name, task in study.tasks.items()}
    taken: dict[tuple[bool, str], str] = {}
    for section, names in keys.items():
        for name in names:
            # a task and a group can both be the mixture of a run; a model cannot
            folder = (section == "models.", name.lower())
            if folder in taken:
                yield f"{section}{name}: same name as {taken[folder]} (case is ignored); use another name."
            taken.setdefault(folder, section + name)
            if section == "models." and name.lower() == POOLED:
                yield f"models.{name}: tables use this name for all models together; use another name."
            if section != "models." and name.lower() in RESERVED:
                yield f"{section}{name}: reserved for tables; expected a name other than {listing(RESERVED)}."


def mixtures(study: Study) -> Iterator[str]:
    """Yield a problem for each mixture with unknown or too few tasks, or the same tasks as another.

    A study without any mixture is a problem, too.
    """
    tasks, groups = list(study.tasks), study.mixtures.groups
    if study.mixtures == type(study.mixtures)():
        yield "mixtures: nothing to train; expected tasks under pairs, groups or single."
    lists = {"mixtures.pairs": study.mixtures.pairs, "mixtures.single": study.mixtures.single}
    lists |= {f"mixtures.groups.{name}": members for name, members in groups.items()}
    seen = {frozenset(pair): "+".join(pair) for pair in itertools.combinations(study.mixtures.pairs, 2)}
    for key, members in lists.items():
        group = key.removeprefix("mixtures.groups.") if key.startswith("mixtures.groups.") else None
        for i, name in enumerate(members):
            if name not in tasks:
                meant = groups.get(name) or [task for task in name.split("+") if task in tasks]
                together = len(meant) > 1 and name != group
                hint = f" Did you mean {', '.join(meant)}?" if together else nearest(name, tasks)
                yield f"{key}.{i}: no task '{name}'; expected one of {listing(tasks)}.{hint}"
        if len(members) < 2 and (group or (key == "mixtures.pairs" and members)):
            yield f"{key}: got {shown(members)}, expected at least two tasks."
        elif group and frozenset(members) in seen:
            yield f"{key}: same tasks as '{seen[frozenset(members)]}'; expected each mixture once."
        elif group:
            seen[frozenset(members)] = group
