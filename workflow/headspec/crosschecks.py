"""What is wrong between the parts of a config: names that are not there, settings that do not go together."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from pydantic import ValidationError

from headspec.columns import wanted
from headspec.correlation import POOLED
from headspec.errors import listing, nearest
from headspec.readers import identity
from headspec.sections import IAT, RESERVED, Model, Section, Similarity, Task, Transfer
from headspec.submission import FILES

S = TypeVar("S", bound=Section)

METRICS = {"classification": ("accuracy", "f1", "matthews"), "regression": ("pearson", "spearman")}
#: what a task made with `pairs_of` has of its own; the rest is that of the task it is made from
OWN_SETTINGS = {"pairs_of", "metrics", "train_examples", "validation_examples"}
#: scheme of a source: pattern of the rest, how to write it
SOURCES = {
    "package": (r"[A-Za-z_]\w*(\.\w+)*(/.+)?", "package:<import name>/<path>"),
    "hub": (r"[\w.-]+/[\w.-]+(@[\w./-]+)?", "hub:<owner>/<name>@<revision>"),
}


def problems(config: dict[str, Any]) -> Iterator[str]:
    """What is wrong between the parts of `config`, as far as each part can be read."""
    models, tasks = _mapping(config, "models"), _mapping(config, "tasks")
    mixtures, groups = _mapping(config, "mixtures"), _mapping(config, "mixtures", "groups")
    typed = {name: _typed(Task, task) for name, task in tasks.items()}
    further = {name: list(_mapping(tasks, name, "further")) for name in tasks}
    yield from _names(models, tasks, groups, further)
    if "mixtures" in config and tasks:
        yield from _mixtures(mixtures, groups, list(tasks))
    yield from _similarity(
        _typed(Similarity, config.get("similarity", {})), mixtures, config.get("brain") is not None
    )
    own, transfer = _typed(IAT, config.get("iat", {})), _typed(Transfer, config.get("transfer", {}))
    known = _mixture_tasks(mixtures, groups, list(tasks))
    if own:
        transferred = bool(transfer and transfer.tasks)
        yield from _iat(own, config.get("methods", ["tuned"]), known, transferred)
    if own and transfer:
        yield from _transfer(transfer, own, known, typed)
    yield from _test(typed, mixtures, groups)
    for name, model in models.items():
        if readable := _typed(Model, model):
            yield from _source(f"models.{name}", readable.source)
    for name, task in typed.items():
        if task is not None:
            yield from _source(f"tasks.{name}", task.source)
            yield from _columns(f"tasks.{name}", task)
            yield from _metrics(f"tasks.{name}", task)
            yield from _pairs_of(name, task, typed)
            yield from _further(f"tasks.{name}", task)


def _mapping(config: Any, *path: str) -> dict[str, Any]:
    """The mapping at `path` in a raw config, with text keys; empty where there is none."""
    for key in path:
        config = config.get(key) if isinstance(config, dict) else None
    return {str(key): value for key, value in config.items()} if isinstance(config, dict) else {}


def _typed(section: type[S], value: Any) -> S | None:
    try:
        return section.model_validate(value)
    except ValidationError:
        return None


def _names(
    models: Iterable[str], tasks: Iterable[str], groups: Iterable[str], further: dict[str, list[str]]
) -> Iterator[str]:
    """Names become folders, also on file systems that ignore case, and rows of tables."""
    keys = {"models.": models, "tasks.": tasks, "mixtures.groups.": groups}
    keys |= {f"tasks.{task}.further.": names for task, names in further.items()}
    taken: dict[tuple[bool, str], str] = {}
    for section, names in keys.items():
        for name in names:
            # a task and a group are both the mixture of a run, a model is not
            folder = (section == "models.", name.lower())
            if folder in taken:
                yield f"{section}{name}: the same as {taken[folder]}, or but for case; expected another name."
            taken.setdefault(folder, section + name)
    for name in models:
        if name.lower() == POOLED:
            yield f"models.{name}: tables use this name for all models together; expected another name."
    for section, name in [(section, name) for section, names in keys.items() for name in names]:
        if section != "models." and name.lower() in RESERVED:
            known = listing(RESERVED)
            yield f"{section}{name}: tables use this name otherwise; expected none of {known}."


def _mixtures(mixtures: dict[str, Any], groups: dict[str, Any], tasks: list[str]) -> Iterator[str]:
    if not any(mixtures.values()):
        yield "mixtures: nothing to train, expected tasks under pairs, groups or single."
    named = {"mixtures.pairs": mixtures.get("pairs"), "mixtures.single": mixtures.get("single")}
    named |= {f"mixtures.groups.{name}": group for name, group in groups.items()}
    lists = {key: [str(t) for t in value] for key, value in named.items() if isinstance(value, list)}
    seen = {
        frozenset(pair): "+".join(pair) for pair in itertools.combinations(lists.get("mixtures.pairs", ()), 2)
    }
    for key, members in lists.items():
        for i, name in enumerate(members):
            if name not in tasks:
                yield f"{key}.{i}: no task '{name}'; there are {listing(tasks)}.{nearest(name, tasks)}"
        is_group = key.startswith("mixtures.groups.")
        if len(members) < 2 and (is_group or (key == "mixtures.pairs" and members)):
            yield f"{key}: got {shown(members)}, expected two tasks or more."
        elif is_group and frozenset(members) in seen:
            yield f"{key}: has the tasks of '{seen[frozenset(members)]}', expected every mixture once."
        elif is_group:
            seen[frozenset(members)] = key.removeprefix("mixtures.groups.")


def _similarity(similarity: Similarity | None, mixtures: dict[str, Any], brain: bool) -> Iterator[str]:
    measures = similarity.measures if similarity else []
    pairs = mixtures.get("pairs", [])
    if measures and isinstance(pairs, list) and len(pairs) < 3:
        yield (
            f"similarity.measures: there is nothing to correlate, expected three tasks or more under "
            f"mixtures.pairs, which has {listing(pairs)}."
        )
    if "cnm" in measures and not brain:
        yield f"similarity.measures.{measures.index('cnm')}: 'cnm' needs responses, expected a section brain."
    if brain and similarity and "cnm" not in measures:
        yield "brain: nothing asks for it, expected 'cnm' in similarity.measures."


def _mixture_tasks(
    mixtures: dict[str, Any], groups: dict[str, Any], tasks: list[str]
) -> dict[str, list[str]]:
    """Mixture name: its tasks, as far as they can be read."""
    pairs = mixtures.get("pairs")
    named = [t for t in tasks if t in map(str, pairs)] if isinstance(pairs, list) else []
    found = {"+".join(pair): list(pair) for pair in itertools.combinations(named, 2)}
    lists = {name: list(map(str, group)) for name, group in groups.items() if isinstance(group, list)}
    return found | dict.fromkeys(groups, []) | lists


def _iat(own: IAT, methods: Any, mixtures: Iterable[str], transferred: bool) -> Iterator[str]:
    methods = methods if isinstance(methods, list) else []
    for i, name in enumerate(own.mixtures):
        if name not in mixtures:
            known = f"there are {listing(mixtures)}.{nearest(name, mixtures)}"
            yield f"iat.mixtures.{i}: no mixture '{name}'; {known}"
    if own.mixtures and "tuned" not in methods:
        yield f"methods: got {listing(methods)}, expected 'tuned' too, from whose runs iat goes on."
    if methods == ["iat"]:
        yield "methods: got iat, expected tuned or frozen too, whose heads are compared."
    if own != IAT() and not own.mixtures:
        yield "iat.mixtures: nothing to train, expected a mixture, because iat has other keys."
    elif "iat" in methods and not own.mixtures and not transferred:
        yield "iat.mixtures: nothing to train, expected a mixture, because methods has 'iat'."
    for key, values in {"alphas": [own.alpha, *own.alphas], "deltas": [own.delta, *own.deltas]}.items():
        for i, value in enumerate(values[1:]):
            like = [other for other in values[: i + 1] if f"{other:g}" == f"{value:g}" and other != value]
            if like:
                yield f"iat.{key}.{i}: got {value}, which runs cannot tell from {like[0]}; expected another."
    deltas = {"iat.delta": own.delta} | {f"iat.deltas.{i}": delta for i, delta in enumerate(own.deltas)}
    for key, delta in deltas.items():
        if own.mixtures and delta > own.reserve:
            yield f"{key}: got {delta:g}, expected at most iat.reserve, {own.reserve:g}; or a larger reserve."


def _transfer(
    transfer: Transfer, iat: IAT, mixtures: dict[str, list[str]], tasks: dict[str, Task | None]
) -> Iterator[str]:
    for i, name in enumerate(transfer.tasks):
        if name not in tasks:
            known = f"there are {listing(tasks)}.{nearest(name, tasks)}"
            yield f"transfer.tasks.{i}: no task '{name}'; {known}"
        elif leak := _leak(name, iat.mixtures, mixtures, tasks):
            yield f"transfer.tasks.{i}: got '{name}', {leak}; expected a task that no encoder has seen."
    if not transfer.tasks:
        return
    for i, method in enumerate(transfer.methods):
        control = method.removeprefix("iat-")
        if method == "pretrained":
            continue
        if not iat.mixtures:
            yield f"transfer.methods.{i}: got '{method}', expected a mixture under iat.mixtures to train on."
        elif method not in ("single", "tuned", "iat") and control not in iat.controls:
            yield f"transfer.methods.{i}: got '{method}', expected '{control}' in iat.controls, to train it."


def _leak(
    name: str, trained: list[str], mixtures: dict[str, list[str]], tasks: dict[str, Task | None]
) -> str:
    """How the texts of a task came into one of the `trained` mixtures; empty where they did not.

    Only what the config says counts here; texts are compared in `headspec.planned`.
    """
    for mixture in trained:
        for member in mixtures.get(mixture, []):
            if member == name:
                return f"a task of '{mixture}' in iat.mixtures"
            bases = [(own and tasks.get(own.pairs_of or "")) or own for own in map(tasks.get, (name, member))]
            if bases[0] and bases[1] and _same_texts(bases[0], bases[1]):
                return f"which has the texts of '{member}', a task of '{mixture}' in iat.mixtures"
    return ""


def _same_texts(one: Task, other: Task) -> bool:
    """Whether two tasks are trained on one split of one source, and no filter keeps their texts apart."""
    splits = [(task.subset, task.train_split) for task in (one, other)]
    if one.source is None or other.source is None or splits[0] != splits[1]:
        return False
    apart = any(
        not set(wanted(one.filter[column])) & set(wanted(other.filter[column]))
        for column in one.filter.keys() & other.filter.keys()
    )
    return not apart and identity(one.source) == identity(other.source)


def _source(key: str, source: str | None) -> Iterator[str]:
    if source is None or (source and not re.match(r"[A-Za-z][\w+-]+:", source)):
        return  # a local path
    scheme, _, rest = source.partition(":")
    if scheme not in SOURCES:
        expected = ", ".join(written for _, written in SOURCES.values())
        yield f"{key}.source: got '{source}', expected {expected} or a local path.{nearest(scheme, SOURCES)}"
        return
    pattern, written = SOURCES[scheme]
    if not re.fullmatch(pattern, rest):
        name, slash, path = rest.partition("/")
        importable = name.replace("-", "_") + slash + path
        hint = f" Did you mean '{scheme}:{importable}'?" if re.fullmatch(pattern, importable) else ""
        yield f"{key}.source: got '{source}', expected {written}.{hint}"


def _columns(key: str, task: Task) -> Iterator[str]:
    columns = {"text_a": task.text_a, "text_b": task.text_b, "label": task.label}
    for (a, first), (b, second) in itertools.combinations(columns.items(), 2):
        if first == second:
            yield f"{key}.{b}: got '{second}', the column of {a}; expected another column."
    if task.train_split == task.validation_split:
        yield f"{key}.validation_split: got '{task.train_split}', the train_split; expected another, or null."


def _metrics(key: str, task: Task) -> Iterator[str]:
    fitting = METRICS[task.type]
    for i, metric in enumerate(task.all_metrics):
        if metric not in fitting:
            yield f"{key}.metrics.{i}: got '{metric}' for a {task.type} task, expected {listing(fitting)}."
    if task.labels is None:
        return
    classes = sorted(set(task.labels.values()))
    if task.type == "regression":
        yield f"{key}.labels: got {listing(classes)} for a regression task, expected no classes."
    elif len(classes) < 2:
        yield f"{key}.labels: got {listing(classes)}, expected two classes or more."
    elif len(classes) > 2 and "f1" in task.all_metrics:
        i = task.all_metrics.index("f1")
        yield f"{key}.metrics.{i}: got 'f1' for {len(classes)} classes, expected accuracy or matthews."


def _further(key: str, task: Task) -> Iterator[str]:
    own = {"train_split": task.train_split, "validation_split": task.validation_split}
    for name, split in task.further.items():
        for which, used in own.items():
            if split == used:
                yield f"{key}.further.{name}: got '{split}', the {which}; expected another split."


def _test(tasks: dict[str, Task | None], mixtures: dict[str, Any], groups: dict[str, Any]) -> Iterator[str]:
    tested = {name: task for name, task in tasks.items() if task and task.test and not task.pairs_of}
    taken: dict[str, str] = {}
    for name, task in tested.items():
        for file in task.test:
            key = f"tasks.{name}.test.{file}"
            if file not in FILES:
                yield f"{key}: no file of the server; there are {listing(FILES)}.{nearest(file, FILES)}"
            elif file in taken:
                yield f"{key}: the same as {taken[file]}; expected every file once."
            else:
                taken[file] = key
                classes = list(dict.fromkeys(task.labels.values())) if task.labels else None
                if problem := FILES[file].problem(task.type, classes):
                    yield f"tasks.{name}.{problem}, because {file} is written from it."
    lists = [*groups.values(), mixtures.get("pairs")]
    sets = [set(map(str, members)) for members in lists if isinstance(members, list)]
    if tested and not any(set(tested) <= members for members in sets):
        yield (
            f"mixtures: none has all tasks with test, {listing(tested)}; expected a group of them, whose "
            "models prediction files are written from."
        )


def _pairs_of(name: str, task: Task, tasks: dict[str, Task | None]) -> Iterator[str]:
    key, base = f"tasks.{name}", task.pairs_of
    if (task.source is None) == (base is None):
        yield f"{key}: got {'neither' if base is None else 'both'}, expected one of source and pairs_of."
    elif base is not None:
        others = [other for other in tasks if other != name]
        if base not in others:
            why = "the task itself" if base == name else "no task"
            yield f"{key}.pairs_of: got '{base}', {why}; expected {listing(others)}.{nearest(base, others)}"
        elif (other := tasks[base]) and (other.pairs_of or other.text_b or other.type == "regression"):
            why = "a regression task" if other.type == "regression" else "a task of pairs"
            yield f"{key}.pairs_of: got '{base}', {why}; expected a task of single texts and classes."
        for setting in sorted(task.model_fields_set - OWN_SETTINGS):
            yield f"{key}.{setting}: has no effect beside pairs_of; expected it in tasks.{base}."


def shown(value: object) -> str:
    """`value` as a user would recognise it, on one line."""
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 80 else f"{text[:76]} ..."
