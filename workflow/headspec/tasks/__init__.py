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
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from headspec.errors import ConfigError

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


def plugged() -> dict[str, Path]:
    """Return the folder of each kind of task from a plugin."""
    folders = filter(None, os.environ.get(FOLDERS, "").split(os.pathsep))
    return {Path(folder).name: Path(folder) for folder in folders}


def plug(folders: Iterable[Path]) -> None:
    """Make the kinds of tasks in these folders importable, instead of earlier ones."""
    for name in [name for name in sys.modules if name.split(".")[2:3] and name.split(".")[2] in plugged()]:
        if name.startswith(f"{__name__}."):
            del sys.modules[name]
    os.environ[FOLDERS] = os.pathsep.join(str(folder.absolute()) for folder in folders)
    find_part.cache_clear()


class _Finder:
    """Finder of the packages of `plugged`."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        package, _, kind = name.rpartition(".")
        if package != __name__ or kind not in (folders := plugged()):
            return None
        spec = ModuleSpec(name, None, is_package=True)
        if (module := folders[kind] / "__init__.py").exists():
            spec = spec_from_file_location(name, module) or spec
        spec.submodule_search_locations = [str(folders[kind])]
        return spec


sys.meta_path.append(_Finder())
