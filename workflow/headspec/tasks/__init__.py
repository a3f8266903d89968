"""Kinds of tasks: a folder for each, named as its type in the config, and what several of them share.

Folders that a config names under `plugins` are found as if they were here. Jobs know them by an environment
variable.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any

#: environment variable: folders of kinds of tasks from plugins
FOLDERS = "HEADSPEC_TASKS"


def plugged() -> dict[str, Path]:
    """Kind of task from a plugin: its folder."""
    folders = filter(None, os.environ.get(FOLDERS, "").split(os.pathsep))
    return {Path(folder).name: Path(folder) for folder in folders}


def folder(name: str) -> Path:
    """The folder of a kind of task."""
    return plugged().get(name, Path(__file__).parent / name)


def plug(folders: Iterable[Path]) -> None:
    """Find kinds of tasks in these folders, in the place of earlier ones."""
    for name in [name for name in sys.modules if name.split(".")[2:3] and name.split(".")[2] in plugged()]:
        if name.startswith(f"{__name__}."):
            del sys.modules[name]
    os.environ[FOLDERS] = os.pathsep.join(str(folder.absolute()) for folder in folders)


class _Finder:
    """Finds the packages of `plugged`."""

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
