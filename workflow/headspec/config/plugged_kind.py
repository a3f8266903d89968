"""Checks of a kind of task from a plugin: its parts, its metrics, and its keys."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo

from headspec import plugins, tasks
from headspec.config.sections.task_keys import TaskKeys
from headspec.errors import listing, nearest, shown
from headspec.tasks.kind import Kind

#: parts without which no stage can run; `units` for kinds on words
NEEDED = ("data", "tokens", "head")


def problems(folder: Path, kind: Kind, others: Mapping[str, Kind]) -> Iterator[str]:
    """Yield what is wrong with the `kind` in a folder, beside the `others` there are."""
    if lacking := [name for name in ("about", "metrics") if not getattr(kind, name, None)]:
        yield f"{folder}/kind.py: KIND has no {listing(lacking)}; expected them, as in `Kind`"
        return
    family = getattr(plugins.attempted(str(folder), f"{tasks.__name__}.{folder.name}"), "FAMILY", tasks.TEXTS)
    families = [path.parent.name for path in Path(tasks.__file__).parent.glob("*/__init__.py")]
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
    for part, name in tasks.PARTS.items():
        if found := tasks.find_part(folder.name, part):
            if problem := _undefined(str(found.origin), name):
                yield problem
        elif part in NEEDED or (part == "units" and kind.on_words):
            yield f"{folder}/{part}.py: missing, expected a module that defines {name}"


def _undefined(file: str, name: str) -> str:
    """Return the problem of a module that does not define a name; it is read, not run."""
    try:
        body = ast.parse(Path(file).read_bytes(), file).body
    except SyntaxError as error:
        return f"{file}, line {error.lineno}: {type(error).__name__}: {error.msg}"
    imports = (each for each in body if isinstance(each, ast.ImportFrom))
    names = {alias.asname or alias.name for each in imports for alias in each.names}
    nodes = (node for each in body for node in ast.walk(each))
    names |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    names |= {each.name for each in body if isinstance(each, (ast.ClassDef, ast.FunctionDef))}
    return "" if {name, "*"} & names else f"{file}: defines no {name}, expected one"


def _metrics(folder: Path, kind: Kind, others: Mapping[str, Kind]) -> Iterator[str]:
    known = [metric for other in others.values() for metric in other.metrics]
    if part := tasks.find_part(folder.name, "metrics"):
        known = [*plugins.attempted(str(folder), part.name).METRICS, *known]
    for metric in (*kind.metrics, *kind.usual):
        if metric not in known:
            expected = f"one of METRICS in metrics.py, or of another type.{nearest(metric, known)}"
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
