"""Checks of what a task is for the method `prompted`: its prompt and answers."""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from headspec.config.measures.similarity import MEASURES
from headspec.config.methods import METHODS
from headspec.errors import listing, nearest
from headspec.tasks.continuations import pair_types

if TYPE_CHECKING:
    from headspec.config.sections.model import Model
    from headspec.config.sections.task import Task


def problems(key: str, task: Task) -> Iterator[str]:
    """Problems with the prompt of one task."""
    if task.type == pair_types.TEXTS:
        yield from _unused(key, task, "prompt", "answers", "shots", "calibration", "chat")
        return
    if task.prompt is None:
        if task.type == pair_types.ANSWERS:
            yield f"{key}.prompt: missing, expected the text that right and wrong answers follow."
        for setting in ("answers", "shots", "calibration", "chat"):
            if getattr(task, setting):
                yield f"{key}.{setting}: has no effect without {key}.prompt; expected both, or neither."
        return
    if task.type not in ("classification", pair_types.ANSWERS):
        yield f"{key}.prompt: got one for a {task.type} task, expected a task of classification."
    yield from fields(key, task)
    if task.type == pair_types.ANSWERS:
        yield from _unused(key, task, "answers", "calibration")
        return
    if task.answers is None:
        yield f"{key}.answers: missing, expected an answer to {key}.prompt for every class."
        return
    answered: dict[str, str] = {}
    for name, answer in task.answers.items():
        if not answer:
            yield f"{key}.answers.{name}: got '', expected a text."
        elif answer in answered:
            yield f"{key}.answers.{name}: got {answer!r}, the answer of {answered[answer]}; expected another."
        answered.setdefault(answer, name)
    if task.labels:
        yield from unlike(key, task.answers, list(dict.fromkeys(task.labels.values())))


def _unused(key: str, task: Task, *settings: str) -> Iterator[str]:
    for setting in settings:
        if getattr(task, setting):
            yield f"{key}.{setting}: has no effect on a task of {task.type}; expected none."


def unlike(key: str, answers: Mapping[str, str], classes: list[str]) -> Iterator[str]:
    """Problems of `answers` to a task of these classes: those that are too many, and missing ones."""
    for name in answers:
        if name not in classes:
            hint = nearest(name, classes)
            yield f"{key}.answers.{name}: no class '{name}'; expected one of {listing(classes)}.{hint}"
    if missing := [name for name in classes if name not in answers]:
        yield f"{key}.answers: got {listing(answers)}, expected an answer for {listing(missing)} as well."


def dtypes(models: Mapping[str, Model | None], methods: Mapping[str, str]) -> Iterator[str]:
    """A problem for each model in bf16 that the method `prompted` does not run, or another trains.

    Parameters
    ----------
    methods : config key: method
    """
    for name in (name for name, model in models.items() if model and model.dtype == "bf16"):
        key = f"models.{name}.dtype: got 'bf16', expected"
        if "prompted" not in methods.values():
            yield f"{key} fp32, because only the method 'prompted' runs a model without training it."
        for where, method in methods.items():
            if method in METHODS and METHODS[method].trains == "all":
                yield f"{key} fp32, because {where}, '{method}', trains all of its weights."


def missing(mixtures: Mapping[str, list[str]], tasks: Mapping[str, Task | None]) -> Iterator[str]:
    """A problem for each task of `mixtures` without a prompt, which the method `prompted` needs."""
    for name in dict.fromkeys(name for members in mixtures.values() for name in members):
        task = tasks.get(name)
        if task and task.prompt is None and task.type not in pair_types.TYPES:
            yield f"tasks.{name}.prompt: missing, expected a text, because methods has 'prompted'."


def compared(measures: Sequence[str]) -> Iterator[str]:
    """A problem for each measure of similarity of models, where every task has the same one."""
    expected = [name for name, measure in MEASURES.items() if not measure.needs_training]
    for i, name in enumerate(measures):
        if MEASURES[name].needs_training:
            yield (
                f"similarity.measures.{i}: got '{name}', which compares models that are trained, but methods "
                f"trains none; expected some of {listing(expected)}."
            )


def trained(
    methods: Mapping[str, str],
    mixtures: Mapping[str, list[str]],
    alone: Mapping[str, str],
    tasks: Mapping[str, Task | None],
) -> Iterator[str]:
    """A problem for each task on pairs, which nothing is trained on, that a model is to be trained on.

    Parameters
    ----------
    methods : config key: a method that trains
    alone : config key: a task that it has trained alone
    """
    pairs = {name: task.type for name, task in tasks.items() if task and task.type in pair_types.TYPES}
    for name in dict.fromkeys(name for members in mixtures.values() for name in members if name in pairs):
        for key, method in methods.items():
            yield (
                f"{key}: got '{method}', expected prompted without it, because tasks.{name} is of type "
                f"{pairs[name]}, for which nothing is trained."
            )
    for key, name in alone.items():
        if name in pairs:
            compared = ", as similarity.measures compare models" if ".pairs." in key else ""
            yield f"{key}: got '{name}', of type {pairs[name]}; expected a task to train on alone{compared}."


def fields(key: str, task: Task, read: bool = False) -> Iterator[str]:
    """Problems of the fields in the prompt: each text of an example once or more, and perhaps one mask.

    Parameters
    ----------
    read : whether the table of the task was, which has columns of texts that the config need not name
    """
    expected = ["text_a", "text_b"] if task.paradigm == "pair" else ["text_a"]
    perhaps = [] if read or task.paradigm == "pair" or "text_a" in task.model_fields_set else ["text_b"]
    try:
        parts = [part[1:] for part in string.Formatter().parse(task.prompt or "") if part[1] is not None]
    except ValueError as error:
        yield f"{key}.prompt: got {task.prompt!r}, {error}; expected '{{{{' and '}}}}' for braces in a text."
        return
    for field, form, conversion in parts:
        if field not in [*expected, *perhaps, "mask"] or form or conversion:
            found = "{" + str(field) + (f"!{conversion}" if conversion else "") + (f":{form}" if form else "")
            fields = listing("{" + name + "}" for name in expected)
            yield f"{key}.prompt: got the field '{found}}}', expected {fields}.{nearest(field, expected)}"
    if [field for field, _, _ in parts].count("mask") > 1:
        yield f"{key}.prompt: got {task.prompt!r}, expected the field '{{mask}}' in it once at most."
    if task.chat and "mask" in [field for field, _, _ in parts]:
        yield f"{key}.chat: got true, expected false, because {key}.prompt has the field '{{mask}}'."
    if task.type == pair_types.ANSWERS and "mask" in [field for field, _, _ in parts]:
        yield f"{key}.prompt: got the field '{{mask}}', expected none in a task of {task.type}."
    for name in expected:
        if name not in [field for field, _, _ in parts]:
            yield f"{key}.prompt: got {task.prompt!r}, expected the field '{{{name}}}' in it."
