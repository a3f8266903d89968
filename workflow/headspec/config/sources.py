"""Resolution of a `source` in the config: a local path, a path in an installed package, or a hub data set."""

import functools
import importlib.util
import pkgutil
import re
from importlib import metadata
from pathlib import Path

from headspec.errors import DataError, MissingError, nearest, shown
from headspec.provenance.user_files import Place

#: prefixes of sources that are not local paths
ELSEWHERE = ("package:", "hub:")
#: a revision on the hub that never changes
COMMIT = re.compile(r"[0-9a-f]{40}")


def place(source: str | None) -> str | None:
    """Return a source as a param; names in packages and hubs matter, the spelling of paths does not."""
    return Place(source) if source and not source.startswith(ELSEWHERE) else source


def locate(source: str, key: str) -> Path:
    """Return the path of a local source, or of a ``package:`` source, without importing the package.

    Raises MissingError, naming the config `key`, if package, file or folder is missing; DataError if
    `source` cannot be a path, or is a device or pipe.
    """
    try:
        path = _located(source, key)
        if path.is_file() or path.is_dir():
            return path
        problem = "neither a file nor a folder"
    except (OSError, RuntimeError, ValueError) as error:  # too long, contains NUL, no such home, or no access
        problem = f"cannot be opened ({error})"
    raise DataError(f"{key}: got {shown(source)}, {problem}; expected a file or folder that can be read")


def _located(source: str, key: str) -> Path:
    if source.startswith("package:"):
        name, _, inside = source.removeprefix("package:").partition("/")
        package, *inner = name.split(".")
        spec = importlib.util.find_spec(package) if package else None
        if spec is None or not spec.submodule_search_locations:
            installed = (module.name for module in pkgutil.iter_modules() if module.ispkg)
            hint = nearest(package, installed) or " Install the package that has the data."
            raise MissingError(f"{key}: no package '{package}' is installed (in '{source}').{hint}")
        root = Path(next(iter(spec.submodule_search_locations)))
        path = root.joinpath(*inner, inside)
    else:
        path = Path(source).expanduser()
    if not path.exists():
        folder, missing = path.parent, path.name
        while not folder.exists():
            folder, missing = folder.parent, folder.name
        if (folder / missing).is_symlink():
            raise MissingError(
                f"{key}: '{missing}' in {folder}/ is a link to itself or to what is not there (in '{source}')"
            )
        names = sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []
        hint = nearest(missing, names) or _hub_hint(source)
        raise MissingError(f"{key}: no file or folder '{missing}' in {folder}/ (in '{source}').{hint}")
    return path


def _hub_hint(source: str) -> str:
    """Return a hint on how to write `source` if it looks like a name on the hub; else empty."""
    if not re.fullmatch(r"([\w-][\w.-]*/)?[\w-]+", source):
        return ""
    name = source if "/" in source else f"<owner>/{source}"
    return f" For the hub, write 'hub:{name}@<revision>'."


def identity(source: str) -> str:
    """Return the resolved path or the hub data set of a source: equal for equal sources."""
    if source.startswith("hub:"):
        return source.partition("@")[0].lower()
    try:
        return str(locate(source, "source").resolve())
    except DataError:
        return source


def distribution(source: str) -> str:
    """Return ``<distribution> <version>`` of the package in a ``package:`` source; empty if unknown."""
    return _distribution(source.removeprefix("package:").partition("/")[0].partition(".")[0])


@functools.cache
def _distribution(package: str) -> str:
    owners = {each.metadata["Name"] for each in metadata.distributions() if _provides(each, package)}
    return ", ".join(f"{name} {metadata.version(name)}" for name in sorted(owners))


def _provides(distribution: metadata.Distribution, package: str) -> bool:
    """Return whether a distribution has the top-level `package`, without listing all distributions."""
    if declared := (distribution.read_text("top_level.txt") or "").split():
        return package in declared
    files = distribution.read_text("RECORD") or ""
    return re.search(rf"^{re.escape(package)}/.*\.py,", files, re.MULTILINE) is not None
