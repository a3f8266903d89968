"""Checks of the method `prompted`: tasks, models and measures that cannot be used with it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headspec.config.measures.similarity import MEASURES
from headspec.config.methods import METHODS, NAMED, prompts
from headspec.config.methods import alone as method_alone
from headspec.errors import listing
from headspec.tasks.registry import kind

if TYPE_CHECKING:
    from headspec.config.study import Study


def problems(study: Study) -> Iterator[str]:
    """Yield a problem for each task without a prompt, and for unsuitable measures, dtypes and training."""
    trains_alone = method_alone(study.methods) == "single"
    alone = _trained_alone(study)
    mixed = dict.fromkeys(itertools.chain(*study.mixture_tasks.values()))
    if prompts(study.methods):
        yield from _without_prompts(study, [*mixed, *([] if trains_alone else alone.values())])
    if not trains_alone:
        yield from _compared(study)
    yield from _dtypes(study)
    yield from _trained(study, list(mixed), alone if trains_alone else {})


def _trained_alone(study: Study) -> dict[str, str]:
    """Return config keys that train a task alone, each with such a task."""
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
    """Yield problems of similarity measures that compare models, since every task has the same one."""
    expected = [name for name, measure in MEASURES.items() if not measure.trait.trained]
    for i, name in enumerate(study.similarity.measures):
        if MEASURES[name].trait.trained:
            yield (
                f"similarity.measures.{i}: got '{name}', which compares models that are trained, but methods "
                f"trains none; expected some of {listing(expected)}."
            )


def _dtypes(study: Study) -> Iterator[str]:
    """Yield problems of bf16 models that the method does not run, or that another method trains."""
    for name in (name for name, model in study.models.items() if model.dtype == "bf16"):
        key = f"models.{name}.dtype: got 'bf16', expected"
        if not prompts(study.methods):
            yield f"{key} fp32, because only the method 'prompted' runs a model without training it."
        for i, method in enumerate(study.methods):
            if method in METHODS and METHODS[method].trains == "all":
                yield f"{key} fp32, because methods.{i}, '{method}', trains all of its weights."


def _trained(study: Study, mixed: list[str], alone: dict[str, str]) -> Iterator[str]:
    """Yield problems of tasks without training texts on which a model is to be trained."""
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
