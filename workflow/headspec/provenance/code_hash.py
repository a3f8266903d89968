"""The code of a job: the files that its script imports. Snakemake reruns the job when one of them changes.

Every import statement counts, wherever it is, except below ``if TYPE_CHECKING:``, and so does a file beside a
module that is named in one of its strings. Files of headspec are hashed without comments, docstrings and
layout, those of plugins byte by byte; installed packages are ignored. Modules that a script imports
dynamically are further roots, which the rule names; a forgotten one fails the job (`guard`).
"""

import ast
import contextlib
import hashlib
import itertools
import json
import os
import py_compile
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Any

from headspec.provenance import hashes
from headspec.provenance.hashes import FileCache, StatKey, stat_key

LIBRARY = Path(__file__).parents[1]
INSTALLED = tuple(os.path.realpath(path) + os.sep for path in {*sysconfig.get_paths().values()})
#: fields of syntax trees that do not affect what code does, or that some Pythons lack
IGNORED = {
    "lineno",
    "col_offset",
    "end_lineno",
    "end_col_offset",
    "ctx",
    "kind",
    "type_comment",
    "type_ignores",
}
#: files that do not affect results, such as headspec's version
UNCOUNTED = {"VERSION"}
#: a string that may name a file or folder next to a module
NAME = re.compile(r"[\w-][\w .-]*")

#: in a job, the hashes by root that it was planned with; empty elsewhere
hashes_when_planned: dict[str, str] = {}


def make_importable() -> None:
    """Let the scripts of rules, which run as separate processes, import this library."""
    paths = [str(LIBRARY.parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


def by_root(roots: Iterable[str | Path]) -> dict[str, str]:
    """Return the hash of all files that each root reaches; keys are relative to the parent of `LIBRARY`."""
    code = current()
    by_path = {os.path.relpath(path, LIBRARY.parent): code.hash(path) for path in map(absolute, roots)}
    PARSED.save()
    return dict(sorted(by_path.items()))


def files(roots: Iterable[str | Path]) -> set[str]:
    """Return the files that roots reach."""
    code = current()
    return set().union(*(code.reached(absolute(root)) for root in roots))


def absolute(root: str | Path) -> str:
    """Return the path of a root, which may be relative to the parent of `LIBRARY`."""
    return os.path.normpath(LIBRARY.parent / root)


def import_root(path: Path) -> Path:
    """Return the folder from which a file is imported: the first above it that is not a package."""
    return next(folder for folder in path.parents if not (folder / "__init__.py").exists())


def is_installed(path: str | Path) -> bool:
    """Return whether a file or folder is part of Python or of an installed package."""
    return f"{os.path.realpath(path)}{os.sep}".startswith(INSTALLED)


class Code:
    """The current imports of files."""

    def __init__(self) -> None:
        self.seen: dict[str, StatKey] = {}
        self.reached, self._needed = cache(self._reach), cache(self._need)
        self._content, self._find, self._entries = cache(self._read), cache(_find), cache(os.listdir)

    def is_current(self) -> bool:
        """Return whether no file has changed since it was read."""
        with contextlib.suppress(OSError):
            return all(stat_key(path) == key for path, key in self.seen.items())
        return False

    def hash(self, root: str) -> str:
        """Return the hash of all files that a root reaches."""
        contents = sorted((_name(path), self._content(path)) for path in self.reached(root))
        return hashlib.sha256(json.dumps(contents).encode()).hexdigest()[:16]

    def _reach(self, root: str) -> frozenset[str]:
        reached, queue = set[str](), [root]
        while queue:
            path = queue.pop()
            if path not in reached:
                reached.add(path)
                queue += self._needed(path)
        return frozenset(reached)

    def _need(self, path: str) -> list[str]:
        """Return the packages that a file is in, and the files that it imports or names."""
        if not path.endswith(".py"):
            return []
        parsed, folder = self.parsed(path), os.path.dirname(path)
        places = ((name, _folders(name, path)) for name in parsed["imports"])
        modules = (file for name, folders in places for file in self._find(name, folders))
        named = _beside(path, [name for name in parsed["texts"] if name in self._entries(folder)])
        return [*dict.fromkeys([*_packages(path), *modules, *named])]

    def _read(self, path: str) -> str:
        """Return the hash of a file: of what it does, in the library, else of its bytes."""
        if path.endswith(".py") and _in_library(path):
            return str(self.parsed(path)["hash"])
        self.seen[path] = stat_key(path)
        return hashes.sha256(path)

    def parsed(self, path: str) -> dict[str, Any]:
        """Return the cached result of `parse` for a file."""
        self.seen[path] = stat_key(path)
        parsed: dict[str, Any] = PARSED.get(path, parse)
        return parsed


def current() -> Code:
    """Return what files import, reading them again if one has changed."""
    global _code
    if not _code.is_current():
        _code = Code()
    return _code


# --- one file


def parse(path: str | Path) -> dict[str, Any]:
    """Return the hash of what a file does, its imports, and strings that may name files.

    Raises SyntaxError if it is not valid Python in its declared encoding. Compiled code in Python's cache is
    renewed.
    """
    tree = ast.parse(Path(path).read_bytes(), str(path))
    # by default, Python would reuse compiled code of another version with the same size and second
    with contextlib.suppress(OSError):  # such as a read-only folder
        py_compile.compile(str(path), invalidation_mode=PycInvalidationMode.CHECKED_HASH, quiet=2)
    code = json.dumps(_normal(tree)).encode()
    nodes, package = [*_executed(tree)], Path(path).relative_to(import_root(Path(path))).parts[:-1]
    return {
        "hash": hashlib.sha256(code).hexdigest()[:16],
        "imports": sorted({name for node in nodes for name in _imported(node, package)}),
        "texts": sorted({text for text in map(_text, nodes) if NAME.fullmatch(text)}),
    }


def _normal(node: object) -> object:
    """Return a syntax tree as lists, equal in all Pythons, without docstrings and other string statements."""
    if isinstance(node, list):
        return [_normal(each) for each in node if not (isinstance(each, ast.Expr) and _text(each.value))]
    if not isinstance(node, ast.AST):
        return node if isinstance(node, (str, int, bool, type(None))) else repr(node)
    fields = [(name, value) for name, value in ast.iter_fields(node) if name not in IGNORED]
    if isinstance(node, ast.JoinedStr):  # how its constant parts are split depends on Python
        fields = [("values", _joined(node.values))]
    return [
        type(node).__name__,
        *([name, _normal(value)] for name, value in fields if value not in (None, [])),
    ]


def _joined(parts: list[ast.expr]) -> list[ast.expr]:
    """Return the parts of an f-string, dropping empty texts and joining adjacent ones."""
    merged: list[ast.expr] = []
    for part in parts:
        if isinstance(part, ast.Constant) and merged and isinstance(merged[-1], ast.Constant):
            merged[-1] = ast.Constant(_text(merged[-1]) + _text(part))
        elif not (isinstance(part, ast.Constant) and not part.value):
            merged.append(part)
    return merged


def _text(node: object) -> str:
    """Return the value of a string constant, or "" for any other node."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes, in any order, except those below ``if TYPE_CHECKING:``."""
    queue = [node]
    while queue:
        node = queue.pop()
        yield node
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            queue += node.orelse
        else:
            queue += ast.iter_child_nodes(node)


def _imported(node: ast.AST, package: tuple[str, ...]) -> Iterator[str]:
    """Yield the modules that a node of a file in `package` imports, and names imported from them.

    The names may be modules, too.
    """
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = package[: len(package) + 1 - node.level] if node.level else ()
        module = ".".join([*above, *filter(None, [node.module])])
        yield module
        yield from (f"{module}.{alias.name}" for alias in node.names)


# --- locations of files


def _in_library(path: str) -> bool:
    return path.startswith(f"{LIBRARY.parent}{os.sep}")


def _name(path: str) -> str:
    """Return a name for a file that does not change when the library or a plugin moves."""
    return os.path.relpath(path, LIBRARY.parent if _in_library(path) else import_root(Path(path)))


def _packages(path: str) -> list[str]:
    """Return the packages that a module is in, which Python imports before it."""
    inits = (folder / "__init__.py" for folder in Path(path).parents)
    return [str(each) for each in itertools.takewhile(Path.exists, inits)]


def _beside(path: str, names: Iterable[str]) -> Iterator[str]:
    """Yield the files next to a module, also in folders, that have one of these names and are not modules."""
    for name in names:
        place = Path(path).with_name(name)
        if name in UNCOUNTED or place.suffix == ".py" or (place / "__init__.py").exists():
            continue
        found = sorted(place.rglob("*")) if place.is_dir() else [place]
        yield from (str(file) for file in found if file.is_file() and "__pycache__" not in file.parts)


def _folders(name: str, importer: str) -> tuple[str, ...]:
    """Return the folders where a file finds a module that is not installed.

    For an installed plugin, this is the folder of its own package.
    """
    if (top := name.partition(".")[0]) == LIBRARY.name:
        return (str(LIBRARY.parent),)
    if _in_library(importer):
        return ()
    root = import_root(Path(importer))
    if is_installed(importer):
        return (str(root),) if Path(importer).relative_to(root).parts[0] == top else ()
    return (str(root), *(each or os.getcwd() for each in ["", *sys.path] if not is_installed(each)))


def _find(name: str, places: tuple[str, ...]) -> list[str]:
    """Return the files of a module in one of the places, or in further folders of its packages."""
    found, names, folders = list[str](), name.split("."), [*places]
    for i, part in enumerate(names):
        package = sys.modules.get(".".join(names[:i])) if i else None
        folders = [*folders, *(path for path in getattr(package, "__path__", ()) if path not in folders)]
        module, folders = _module_in(folders, part)
        found += [module] if module else []
        if not module and not folders:
            break
    return found


def _module_in(folders: list[str], name: str) -> tuple[str | None, list[str]]:
    """Return the file of a module in one of the folders, and the folders of its submodules."""
    for folder in folders:
        path = os.path.join(folder, name)
        if os.path.isfile(file := os.path.join(path, "__init__.py")):
            return os.path.normpath(file), [path]
        if os.path.isfile(file := f"{path}.py"):
            return os.path.normpath(file), []
    return None, [path for folder in folders if os.path.isdir(path := os.path.join(folder, name))]


#: cache of `parse`; parsing all files takes seconds
PARSED = FileCache("code.json", lambda: hashes.sha256(__file__))
_code = Code()
