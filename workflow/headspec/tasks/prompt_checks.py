"""Checks of a task's keys for the method `prompted`: its prompt and answers."""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from headspec.errors import listing, nearest

if TYPE_CHECKING:
    from headspec.tasks.keys import TaskKeys

#: keys of prompts and answers, which do not affect the tables of a task
KEYS = ("prompt", "answers", "shots", "calibration", "chat")


def unused(key: str, task: TaskKeys, *settings: str) -> Iterator[str]:
    """Yield a problem for each of `settings` that is set but has no effect for the kind of the task."""
    for setting in settings:
        if getattr(task, setting):
            yield f"{key}.{setting}: has no effect on a task of {task.type}; remove it."


def without_prompt(key: str, task: TaskKeys) -> Iterator[str]:
    """Yield a problem for each key about a prompt that is set without one."""
    for setting in KEYS[1:] if task.prompt is None else ():
        if getattr(task, setting):
            yield f"{key}.{setting}: has no effect without {key}.prompt; set both or neither."


def class_answer_problems(key: str, task: TaskKeys) -> Iterator[str]:
    """Yield problems with a prompt whose answers are classes."""
    if task.prompt is None:
        yield from without_prompt(key, task)
        return
    yield from fields(key, task)
    if task.answers is None:
        yield f"{key}.answers: missing, expected an answer to {key}.prompt for every class."
        return
    answered: dict[str, str] = {}
    for name, answer in task.answers.items():
        if not answer:
            yield f"{key}.answers.{name}: got '', expected a text."
        elif answer in answered:
            yield f"{key}.answers.{name}: got {answer!r}, the answer of {answered[answer]}; use another."
        answered.setdefault(answer, name)
    if task.labels:
        yield from unlike(key, task.answers, list(dict.fromkeys(task.labels.values())))


def unlike(key: str, answers: Mapping[str, str], classes: list[str]) -> Iterator[str]:
    """Yield problems with `answers` that are not exactly one per class."""
    for name in answers:
        if name not in classes:
            hint = nearest(name, classes)
            yield f"{key}.answers.{name}: no class '{name}'; expected one of {listing(classes)}.{hint}"
    if missing := [name for name in classes if name not in answers]:
        yield f"{key}.answers: got {listing(answers)}, expected an answer for {listing(missing)} as well."


def fields(key: str, task: TaskKeys, read: bool = False) -> Iterator[str]:
    """Yield problems with a prompt's fields: each text of an example at least once, and at most one mask.

    `read` tells that the task's table has been read, and so which columns of texts it has even if the config
    does not name them.
    """
    expected = ["text_a", "text_b"] if task.paradigm == "pair" else ["text_a"]
    perhaps = [] if read or task.paradigm == "pair" or "text_a" in task.model_fields_set else ["text_b"]
    try:
        parts = _parts(task.prompt)
    except ValueError as error:
        yield f"{key}.prompt: got {task.prompt!r}, {error}; expected '{{{{' and '}}}}' for braces in a text."
        return
    for field, form, conversion in parts:
        if field not in [*expected, *perhaps, "mask"] or form or conversion:
            written = (
                "{" + str(field) + (f"!{conversion}" if conversion else "") + (f":{form}" if form else "")
            )
            fields = listing("{" + name + "}" for name in expected)
            yield f"{key}.prompt: got the field '{written}}}', expected {fields}.{nearest(field, expected)}"
    if [field for field, _, _ in parts].count("mask") > 1:
        yield f"{key}.prompt: got {task.prompt!r}, expected the field '{{mask}}' at most once."
    if task.chat and masked(task.prompt):
        yield f"{key}.chat: got true, expected false, because {key}.prompt has the field '{{mask}}'."
    for name in expected:
        if name not in [field for field, _, _ in parts]:
            yield f"{key}.prompt: got {task.prompt!r}, expected the field '{{{name}}}' in it."


def _parts(prompt: str | None) -> list[tuple[Any, ...]]:
    """Return name, format and conversion of every field; ValueError for unmatched braces."""
    return [part[1:] for part in string.Formatter().parse(prompt or "") if part[1] is not None]


def masked(prompt: str | None) -> bool:
    """Return whether a prompt has a mask, a field for the answer."""
    try:
        return "mask" in [field for field, _, _ in _parts(prompt)]
    except ValueError:
        return False
