"""Checks of the method `prompted`: tasks, models and measures that it does not go with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from headspec.config.measures.similarity import MEASURES
from headspec.config.methods import METHODS, prompts
from headspec.errors import listing
from headspec.tasks.kinds import kind

if TYPE_CHECKING:
    from headspec.config.sections.model import Model
    from headspec.config.sections.task import Task


def dtypes(models: Mapping[str, Model | None], methods: Mapping[str, str]) -> Iterator[str]:
    """A problem for each model in bf16 that the method `prompted` does not run, or another trains.

    Parameters
    ----------
    methods : config key: method
    """
    for name in (name for name, model in models.items() if model and model.dtype == "bf16"):
        key = f"models.{name}.dtype: got 'bf16', expected"
        if not prompts(methods.values()):
            yield f"{key} fp32, because only the method 'prompted' runs a model without training it."
        for where, method in methods.items():
            if method in METHODS and METHODS[method].trains == "all":
                yield f"{key} fp32, because {where}, '{method}', trains all of its weights."


def missing(mixtures: Mapping[str, list[str]], tasks: Mapping[str, Task | None]) -> Iterator[str]:
    """A problem for each task of `mixtures` without a prompt, which the method `prompted` needs."""
    for name in dict.fromkeys(name for members in mixtures.values() for name in members):
        task = tasks.get(name)
        if task and task.prompt is None and kind(task).needs_prompt:
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
    pairs = {name: task.type for name, task in tasks.items() if task and not kind(task).trained}
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
