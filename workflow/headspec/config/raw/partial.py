"""A study as far as its config can be read, so that keys are compared in spite of other mistakes."""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from headspec.config.checks import consistency
from headspec.config.sections.model import Model
from headspec.config.sections.task import Task
from headspec.config.study import Mixtures, Study

#: number of parts in the key of a section, where it is not one
SECTION_DEPTH = {"models": 2, "tasks": 2, "mixtures": 3}


class PartialStudy(Study):
    """A study that may lack the keys that every study has."""

    study: str = ""
    seeds: list[int] = [0]
    models: dict[str, Model] = {}
    tasks: dict[str, Task] = {}
    mixtures: Mixtures = Mixtures()


def problems(config: dict[str, Any], errors: Sequence[ErrorDetails]) -> Iterator[str]:
    """Yield the contradictions between the keys of a config that can be read; `errors` are of its validation.

    Defaults replace the other keys, and contradictions with these defaults are left out.
    """
    config, unread = copy.deepcopy(config), set[str]()
    while errors:
        unread |= {_remove(config, error["loc"]) for error in reversed(errors)}
        try:
            study = PartialStudy.model_validate(config)
            break
        except ValidationError as error:
            errors = error.errors()
    for problem in consistency.problems(study):
        key = problem.partition(":")[0]
        if not any(other in problem or f"{other}.".startswith(f"{key}.") for other in unread):
            yield problem


def _remove(config: Any, location: Sequence[Any]) -> str:
    """Remove what is at a location, with its section or list; return the key that is then not read.

    Models, tasks and groups remain, empty, because others name them.
    """
    entries: list[tuple[Any, Any]] = []
    node = config
    for part in location:
        if isinstance(node, dict):
            keys = [key for key in node if key == part or str(key) == str(part)]
        else:
            keys = [part] if isinstance(node, list) and isinstance(part, int) and part < len(node) else []
        if not keys:
            break
        entries.append((node, keys[0]))
        node = node[keys[0]]
    if not entries:
        return ".".join(map(str, location))
    parent, key = entries[-1]
    del parent[key]
    names = [str(key) for _, key in entries]
    if names[:-1] in (["models"], ["tasks"]):
        parent[str(key)] = {}
    elif names[:-1] == ["mixtures", "groups"] and location[-1] != "[key]":
        parent[key] = []
    return ".".join(names[: SECTION_DEPTH.get(names[0], 1)])
