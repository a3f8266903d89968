"""Checks of a kind of task from a plugin: its parts, its metrics, and its keys."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo

from headspec import plugins
from headspec.config.sections.task_keys import TaskKeys
from headspec.errors import listing, nearest, shown
from headspec.tasks import parts
from headspec.tasks.kind import Kind

#: parts without which no stage can run
NEEDED = ("DATA", "ENCODING", "HEAD")


def problems(folder: Path, kind: Kind, others: Mapping[str, Kind]) -> Iterator[str]:
    """Yield what is wrong with the `kind` in a folder, beside the `others` there are."""
    if lacking := [name for name in ("about", "metrics") if not getattr(kind, name, None)]:
        yield f"{folder}/kind.py: KIND has no {listing(lacking)}; expected them, as in `Kind`"
        return
    package = plugins.attempted(str(folder), f"{parts.PACKAGE}.{folder.name}")
    family = getattr(package, "FAMILY", parts.TEXTS)
    families = sorted(path.parent.name for path in parts.KINDS.glob("*/__init__.py"))
    if family not in families:
        hint = nearest(family, families)
        yield f"{folder}/__init__.py: got FAMILY {shown(family)}, expected one of {listing(families)}.{hint}"
        return
    if found := [*_parts(folder, kind)]:
        yield from found
        return
    yield from _metrics(folder, kind, others)
    for name, definition in kind.keys.items():
        if problem := _key(name, definition, others.values()):
            yield f"{folder}/kind.py: key {shown(name)} {problem}"


def _parts(folder: Path, kind: Kind) -> Iterator[str]:
    """Yield what keeps parts from being found; modules are read, not run."""
    for path in sorted(folder.glob("*.py")):
        try:
            ast.parse(path.read_bytes(), str(path))
        except SyntaxError as error:
            yield f"{path}, line {error.lineno}: {type(error).__name__}: {error.msg}"
            return
    for name in (*NEEDED, "TASK") if kind.on_words else NEEDED:
        if not parts.root(folder.name, name):
            yield f"{folder}: no module defines {name}, expected one"


def _metrics(folder: Path, kind: Kind, others: Mapping[str, Kind]) -> Iterator[str]:
    known = [metric for other in others.values() for metric in other.metrics]
    if root := parts.root(folder.name, "METRICS"):
        plugins.attempted(str(folder), parts.module(root))
        known = [*parts.load(root), *known]
    for metric in (*kind.metrics, *kind.usual):
        if metric not in known:
            expected = f"one of METRICS of the kind, or of another type.{nearest(metric, known)}"
            yield f"{folder}/kind.py: got metric {shown(metric)}, expected {expected}"


def _key(name: Any, definition: Any, others: Iterable[Kind]) -> str:
    """Return what is wrong with a key and its definition; empty if nothing is."""
    same = [other.keys[name] for other in others if name in other.keys]
    if all(other == definition for other in same) and same:
        return ""  # inherited
    if same or (isinstance(name, str) and hasattr(TaskKeys, name)) or name in TaskKeys.model_fields:
        return "is there already; expected another name"
    if not (isinstance(name, str) and name.isidentifier() and name[0] != "_"):
        return "cannot be a key; expected letters, digits and '_', the first a letter"
    if not (isinstance(definition, tuple) and len(definition) == 2 and isinstance(definition[1], FieldInfo)):
        return f"has {shown(definition)}, expected a type and a Field of pydantic"
    if definition[1].is_required():
        return "has no default; expected one, for tasks of other types"
    try:
        TypeAdapter(Annotated[definition]).json_schema()
    except (PydanticUserError, TypeError, NameError) as error:
        return f"has a type that a config cannot have: {str(error).splitlines()[0]}"
    return ""
