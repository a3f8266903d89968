"""Locate sources that are not on the hub: in an installed package, or at a local path."""

from __future__ import annotations

import functools
import importlib.util
import pkgutil
import re
from importlib import metadata
from pathlib import Path

from headspec.errors import MissingError, nearest


def locate(source: str, key: str) -> Path:
    """The file or folder that a ``package:`` source or a local path names.

    A package is found without being imported.

    Parameters
    ----------
    source
        As in the config.
    key
        Config key of `source`, for the error.

    Raises
    ------
    MissingError
        Package not installed, or no such file.
    """
    if source.startswith("package:"):
        name, _, inside = source.removeprefix("package:").partition("/")
        package, *inner = name.split(".")
        spec = importlib.util.find_spec(package) if package else None
        if spec is None or not spec.submodule_search_locations:
            installed = (module.name for module in pkgutil.iter_modules() if module.ispkg)
            hint = nearest(package, installed) or " Install the package that carries the data."
            raise MissingError(f"{key}: no package '{package}' is installed (in '{source}').{hint}")
        root = Path(next(iter(spec.submodule_search_locations)))
        path = root.joinpath(*inner, inside)
    else:
        path = Path(source).expanduser()
    if not path.exists():
        folder, missing = path.parent, path.name
        while not folder.exists():
            folder, missing = folder.parent, folder.name
        known = sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []
        hint = nearest(missing, known) or _hub_hint(source)
        raise MissingError(f"{key}: no file or folder '{missing}' in {folder}/ (in '{source}').{hint}")
    return path


def _hub_hint(source: str) -> str:
    """What to write, where `source` looks like a name on the hub."""
    if not re.fullmatch(r"([\w-][\w.-]*/)?[\w-]+", source):
        return ""
    name = source if "/" in source else f"<owner>/{source}"
    return f" On the hub it would be 'hub:{name}@<revision>'."


def distribution(source: str) -> str:
    """``<distribution> <version>`` that a ``package:`` source is carried by; empty where none says so."""
    package = source.removeprefix("package:").partition("/")[0].partition(".")[0]
    owners = _distributions().get(package, [])
    return ", ".join(f"{name} {metadata.version(name)}" for name in sorted(set(owners)))


_distributions = functools.cache(metadata.packages_distributions)
