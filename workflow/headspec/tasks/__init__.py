"""Kinds of tasks: a folder each, named as its type in the config, and a folder for each family of kinds.

The parts of a kind are modules that jobs import by name; missing parts come from the folder of its family,
named by `FAMILY` in its package (default: `texts`). Jobs find folders of plugins by an environment variable.
"""

import os
import sys
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from headspec.errors import ConfigError
from headspec.provenance import code_hash

#: environment variable with the folders of kinds of tasks from plugins
FOLDERS = "HEADSPEC_TASKS"
#: parts of a kind, and what each defines
PARTS = {
    "data": "DATA",
    "tokens": "ENCODING",
    "head": "HEAD",
    "metrics": "METRICS",
    "counts": "COUNTS",
    "prompts": "PROMPTS",
    "units": "TASK",
}
#: family of kinds that name none
TEXTS = "texts"


@cache
def find_part(kind: str, part: str) -> ModuleSpec | None:
    """Find the module with a part of a kind of task, in its own or its family's folder."""
    found = find_spec(f"{__name__}.{kind}.{part}")
    if found or kind == TEXTS:
        return found
    return find_part(getattr(import_module(f"{__name__}.{kind}"), "FAMILY", TEXTS), part)


def load_part(kind: str, part: str) -> Any:
    """Return what a part of a kind of task defines (`PARTS`); ConfigError if there is none."""
    found, name = find_part(kind, part), PARTS[part]
    if not found:
        folder = plugged().get(kind, Path(__file__).with_name(kind))
        raise ConfigError(f"{folder / part}.py: missing, expected a module that defines {name}")
    module = import_module(found.name)
    if not hasattr(module, name):
        raise ConfigError(f"{found.origin}: defines no {name}; expected one")
    return getattr(module, name)


def root(kind: str, part: str) -> str | None:
    """Return what a part of a kind defines, as a root of `code_hash.by_root`; None without the part."""
    found = find_part(kind, part)
    return f"{found.origin}:{PARTS[part]}" if found else None


def with_parts(roots: tuple[str, ...], kinds: tuple[str, ...]) -> tuple[str, ...]:
    """Return roots of a job's code with the parts of these kinds of tasks that this code loads by name."""
    named = (root(kind, part) for part in code_hash.parts(roots) for kind in kinds)
    more = tuple(dict.fromkeys(name for name in named if name and name not in roots))
    return with_parts((*roots, *more), kinds) if more else roots  # parts may load parts


def plugged() -> dict[str, Path]:
    """Return the folder of each kind of task from a plugin."""
    folders = filter(None, os.environ.get(FOLDERS, "").split(os.pathsep))
    return {Path(folder).name: Path(folder) for folder in folders}


def plug(folders: Iterable[Path]) -> None:
    """Make the kinds of tasks in these folders importable from this package, instead of earlier ones."""
    for name in [name for name in sys.modules if name.split(".")[2:3] and name.split(".")[2] in plugged()]:
        if name.startswith(f"{__name__}."):
            del sys.modules[name]
    os.environ[FOLDERS] = os.pathsep.join(str(folder.absolute()) for folder in folders)
    _find_plugged()
    find_part.cache_clear()


def _find_plugged() -> None:
    """Search this package in the folders beside those of plugins, too."""
    __path__[1:] = dict.fromkeys(str(folder.parent) for folder in plugged().values())


_find_plugged()
