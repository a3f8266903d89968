"""Checks of tasks against each other, of each `source`, and of the method `prompted` with the study."""

import itertools
import re
from collections.abc import Iterator

from headspec.config.glue import FILES
from headspec.config.measures import heads
from headspec.config.measures.similarity import MEASURES
from headspec.config.methods import METHODS, NAMED, prompts
from headspec.config.methods import alone as method_alone
from headspec.config.sections.atlas import Treebank
from headspec.config.sections.task import Task
from headspec.config.study import Study
from headspec.config.values import RESAMPLE
from headspec.errors import listing, nearest
from headspec.tasks import prompt_checks
from headspec.tasks.registry import KINDS, kind

#: keys that a task with `pairs_of` may set; others are those of the task whose texts it pairs
PAIR_TASK_SETTINGS = {"pairs_of", "metrics", "train_examples", "validation_examples", *prompt_checks.KEYS}
#: scheme of a source: pattern of the rest, how to write it
SOURCES = {
    "package": (r"[A-Za-z_]\w*(\.\w+)*(/.+)?", "package:<import name>/<path>"),
    "hub": (r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@[\w./-]+)?", "hub:<owner>/<name>@<revision>"),
}


def task_problems(name: str, task: Task, tasks: dict[str, Task]) -> Iterator[str]:
    """Yield the problems with one of the `tasks`."""
    key = f"tasks.{name}"
    yield from source_problems(key, task.source)
    if not task.pairs_of:
        yield from subset_problems(key, task)
    yield from _columns(key, task)
    yield from _metrics(key, task)
    yield from _pairs_of(name, task, tasks)
    yield from _further(key, task)
    yield from _unused(key, task)
    yield from kind(task).problems(key, task)
    yield from kind(task).prompt_problems(key, task)


def source_problems(key: str, source: str | None) -> Iterator[str]:
    """Yield problems with the form of the `source` of a model or a task."""
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


def subset_problems(key: str, section: Task | Treebank) -> Iterator[str]:
    """Yield a problem if a section has a `subset` but its source is not a data set on the hub."""
    if section.subset is not None and not str(section.source).startswith("hub:"):
        yield f"{key}.subset: got '{section.subset}', but {key}.source is not on the hub; remove it."


def _columns(key: str, task: Task) -> Iterator[str]:
    labels = [task.label] if isinstance(task.label, str) else task.label
    columns = {"text_a": task.text_a, "text_b": task.text_b}
    if (n := kind(task).label_columns) != 0:
        columns |= {f"label.{i}" if len(labels) > 1 else "label": column for i, column in enumerate(labels)}
    if n == 0:
        for setting in [name for name in ("label", "unlabelled") if name in task.model_fields_set]:
            yield f"{key}.{setting}: has no effect on a task of {task.type}; remove it."
    elif n is not None and len(labels) != n:
        called = f"task of {task.type}" if n > 1 else f"{task.type} task"
        expected = {1: "one column", 2: "two columns"}.get(n, f"{n} columns")
        yield f"{key}.label: got {listing(labels)} for a {called}, expected {expected}."
    for (a, first), (b, second) in itertools.combinations(columns.items(), 2):
        if first == second:
            yield f"{key}.{b}: got '{second}', the column of {a}; use another column."
    if task.train_split == task.validation_split:
        yield f"{key}.validation_split: got '{task.train_split}', the train_split; use another, or null."


def _metrics(key: str, task: Task) -> Iterator[str]:
    suitable, beside = kind(task).metrics, kind(task).beside
    for i, metric in enumerate(task.metrics):
        if metric not in suitable:
            yield f"{key}.metrics.{i}: got '{metric}' for type {task.type}, expected {listing(suitable)}."
        elif i == 0 and metric in beside:
            first = next(other for other in suitable if other not in beside)
            yield f"{key}.metrics.0: got '{metric}', no metric to compare by; expected {first} first."


def _unused(key: str, task: Task) -> Iterator[str]:
    """Yield problems with keys that have no meaning for tasks of this type."""
    of, without = kind(task), kind(task).unused
    for setting in without:
        if getattr(task, setting):
            yield f"{key}.{setting}: not used by a task of {task.type}; remove it."
    if task.labels is not None and not of.classes and "labels" not in without:
        classes = listing(sorted(set(task.labels.values())))
        yield f"{key}.labels: got {classes} for type {task.type}, which has no classes; remove it."
    for setting in {own: None for other in KINDS.values() for own in other.keys if own not in of.keys}:
        if setting in task.model_fields_set and getattr(task, setting) is not None:
            types = " or ".join(name for name, other in KINDS.items() if setting in other.keys)
            yield f"{key}.{setting}: has no effect for a {task.type} task; expected {key}.type: {types}."


def refused_problems(study: Study) -> Iterator[str]:
    """Yield a problem for each part of a study that does not accept a task's type."""
    refusing: dict[str, dict[str, str]] = {}
    for name, task in study.tasks.items():
        for part in kind(task).refused:
            refusing.setdefault(part, {})[name] = f"task {kind(task).called}"
    for i, method in enumerate(study.methods):
        for name, such in list(refusing.get(method, {}).items())[:1]:
            yield (
                f"methods.{i}: got '{method}', which does not support a {such}, such as tasks.{name}; "
                "expected 'tuned'."
            )
    retrained = {f"iat.mixtures.{i}": name for i, name in enumerate(study.iat.mixtures)}
    retrained |= {f"transfer.tasks.{i}": name for i, name in enumerate(study.transfer.tasks)}
    mixtures = study.mixture_tasks
    for key, name in retrained.items():
        members = [member for member in (name, *mixtures.get(name, ())) if member in refusing.get("iat", {})]
        for member in members[:1]:
            such = refusing["iat"][member]
            yield f"{key}: got '{name}', which must not be a {'mixture with a ' * (name in mixtures)}{such}."
    if study.pruning.ablation == RESAMPLE:
        for name, such in list(refusing.get(RESAMPLE, {}).items())[:1]:
            yield (
                f"pruning.ablation: got 'resample', which does not support a {such}, such as tasks.{name}; "
                "expected 'zero' or 'mean'."
            )
    measures = study.similarity.measures
    for name, such in list(refusing.get("similarity", {}).items() if measures else ())[:1]:
        such = f"a {such}, such as tasks.{name}"
        yield f"similarity.measures: got {listing(measures)}, which do not support {such}; remove them."


def _pairs_of(name: str, task: Task, tasks: dict[str, Task]) -> Iterator[str]:
    key, base = f"tasks.{name}", task.pairs_of
    if (task.source is None) == (base is None):
        yield f"{key}: got {'neither' if base is None else 'both'}, expected one of source and pairs_of."
    elif base is not None:
        others = [other for other in tasks if other != name]
        if base not in others:
            why = "the task itself" if base == name else "no task"
            yield f"{key}.pairs_of: got '{base}', {why}; expected {listing(others)}.{nearest(base, others)}"
        elif (other := tasks[base]).pairs_of or other.text_b or not kind(other).paired:
            why = "a task of pairs" if kind(other).paired else f"a {other.type} task"
            yield f"{key}.pairs_of: got '{base}', {why}; expected a task that classifies single texts."
        for setting in sorted(task.model_fields_set - PAIR_TASK_SETTINGS):
            yield f"{key}.{setting}: has no effect with pairs_of; set it in tasks.{base}."


def _further(key: str, task: Task) -> Iterator[str]:
    used = {"train_split": task.train_split, "validation_split": task.validation_split}
    for name, split in task.further.items():
        for setting, other in used.items():
            if split == other:
                yield f"{key}.further.{name}: got '{split}', the {setting}; use another split."


def test_problems(study: Study) -> Iterator[str]:
    """Yield problems with prediction files that are unknown, repeated, or unsuitable for their task.

    It is a problem, too, if no mixture has all their tasks.
    """
    tested = {name: task for name, task in study.tasks.items() if task.test and not task.pairs_of}
    taken: dict[str, str] = {}
    for name, task in tested.items():
        for file in task.test:
            key = f"tasks.{name}.test.{file}"
            if file not in FILES:
                hint = nearest(file, FILES)
                yield f"{key}: not a file of the GLUE server; expected one of {listing(FILES)}.{hint}"
            elif file in taken:
                yield f"{key}: same file as {taken[file]}; expected each file once."
            else:
                taken[file] = key
                classes = list(dict.fromkeys(task.labels.values())) if task.labels else None
                if problem := FILES[file].problem(task.type, classes):
                    yield f"tasks.{name}.{problem}, to write {file}."
    lists = [*study.mixtures.groups.values(), study.mixtures.pairs]
    if tested and not any(set(tested) <= set(members) for members in lists):
        yield (
            f"mixtures: no mixture has all tasks with test, {listing(tested)}; expected a group of them, "
            "whose models fill the prediction files."
        )


def prompt_problems(study: Study) -> Iterator[str]:
    """Yield problems with the method `prompted`: missing prompts, unsuitable measures, dtypes or training."""
    trains_alone = method_alone(study.methods) == "single"
    alone = _trained_alone(study)
    mixed = dict.fromkeys(itertools.chain(*study.mixture_tasks.values()))
    if prompts(study.methods):
        yield from _without_prompts(study, [*mixed, *([] if trains_alone else alone.values())])
    if not trains_alone:
        yield from _compared(study)
    yield from _dtypes(study)
    yield from _quantised(study)
    yield from _trained(study, list(mixed), alone if trains_alone else {})


def _trained_alone(study: Study) -> dict[str, str]:
    """Return the config keys that train a task alone, each with its task."""
    lists = {"single": study.mixtures.single}
    if study.similarity.compares_models:
        lists["pairs"] = study.mixtures.pairs
    return {f"mixtures.{key}.{i}": name for key, names in lists.items() for i, name in enumerate(names)}


def _without_prompts(study: Study, names: list[str]) -> Iterator[str]:
    for name in dict.fromkeys(name for name in names if name in study.tasks):
        task = study.tasks[name]
        if task.prompt is None and kind(task).needs_prompt:
            yield f"tasks.{name}.prompt: missing, expected a text, because methods has 'prompted'."


def _compared(study: Study) -> Iterator[str]:
    """Yield problems with similarity measures that compare trained models, for a study that trains none."""
    expected = [name for name, measure in MEASURES.items() if not measure.trait.trained]
    for i, name in enumerate(study.similarity.measures):
        if MEASURES[name].trait.trained:
            yield (
                f"similarity.measures.{i}: got '{name}', which compares trained models, but methods trains "
                f"none; choose from {listing(expected)}."
            )


def _quantised(study: Study) -> Iterator[str]:
    """Yield problems with quantised models that are not prompted, or are trained, or ranked by weights."""
    for name, model in study.models.items():
        if model.quantization is None:
            continue
        key = f"models.{name}.quantization: got '{model.quantization}', expected null"
        if not prompts(study.methods):
            yield f"{key}, because only the method 'prompted' runs quantised models."
        for i, method in enumerate(study.methods):
            if method in NAMED and METHODS[method].trains != "nothing":
                yield f"{key}, because methods.{i}, '{method}', trains; quantised models are only prompted."
        for ranking in heads.of_weights(study.atlas.rankings if "atlas" in study.methods else ()):
            yield f"{key}, because atlas.rankings has '{ranking}', a measure of weights in floating point."


def _dtypes(study: Study) -> Iterator[str]:
    """Yield problems with bf16 models that are not prompted, or all of whose weights a method trains."""
    for name in (name for name, model in study.models.items() if model.dtype == "bf16"):
        key = f"models.{name}.dtype: got 'bf16', expected"
        if not prompts(study.methods):
            yield f"{key} fp32, because only the method 'prompted' runs a model without training it."
        for i, method in enumerate(study.methods):
            method = study.plain_method if method == "iat" else method
            if method in METHODS and METHODS[method].trains == "all":
                yield f"{key} fp32, because methods.{i}, '{method}', trains all of its weights."


def _trained(study: Study, mixed: list[str], alone: dict[str, str]) -> Iterator[str]:
    """Yield problems with tasks that cannot be trained on, but on which a model would be trained."""
    untrained = {name: task.type for name, task in study.tasks.items() if not kind(task).trained}
    training = {
        f"methods.{i}": method
        for i, method in enumerate(study.methods)
        if method in NAMED and METHODS[method].trains != "nothing"
    }
    for name in (name for name in mixed if name in untrained):
        for key, method in training.items():
            yield (
                f"{key}: got '{method}', expected prompted without it, because tasks.{name} is of type "
                f"{untrained[name]}, for which nothing is trained."
            )
    for key, name in alone.items():
        if name in untrained:
            compared = ", as similarity.measures compare models" if ".pairs." in key else ""
            yield (
                f"{key}: got '{name}', of type {untrained[name]}; expected a task to train on "
                f"alone{compared}."
            )
