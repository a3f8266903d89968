"""Hashes of the code that a stage runs; Snakemake reruns the stage when they change."""

import ast
import contextlib
import hashlib
import os
import py_compile
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Any, TypeGuard

from headspec.provenance.hashes import FileCache

LIBRARY = Path(__file__).parents[1]
#: fields of syntax trees with statements, or with nodes that have statements
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
#: folders of installed packages, which are not local to each other
INSTALLED = ("site-packages", "dist-packages")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def make_importable() -> None:
    """Let the scripts of rules, which run as separate processes, import this library."""
    paths = [str(LIBRARY.parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


def closure(script: str | Path) -> dict[str, str]:
    """Return hashes of a script and of all code that it imports, even indirectly, from headspec or beside it.

    Keys are paths from the library's folder. Comments, docstrings, layout, descriptions of config keys and
    imports for type checkers do not count. Imports inside functions count, and files that a module names by
    ``with_name``.
    """
    hashes: dict[str, str] = {}
    queue = [str(script)]
    while queue:
        path = queue.pop()
        name = os.path.relpath(path, LIBRARY.parent)
        if name not in hashes:
            hashes[name], imported = CODE.get(path, _hash)
            queue += imported
    CODE.save()
    return dict(sorted(hashes.items()))


def code(path: Path) -> str:
    """Return the hash of the code in a file; raise FileNotFoundError if it is gone."""
    return CODE.get(path, _hash)[0]


def _hash(path: str | Path) -> tuple[str, list[str]]:
    """Return the hash of a file's code, and the library files that it needs."""
    path = Path(path)
    if path.suffix != ".py":
        return hashlib.sha256(path.read_bytes()).hexdigest()[:12], []
    tree = ast.parse(path.read_text(), str(path))
    # by default, Python would take compiled code of another file with the same size and second
    with contextlib.suppress(OSError):  # such as a read-only folder
        py_compile.compile(str(path), invalidation_mode=PycInvalidationMode.CHECKED_HASH, quiet=2)
    needed = [file for node in executed(tree) for file in imported(node, path)]
    needed += _read(tree, path)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Field":
            node.keywords = [keyword for keyword in node.keywords if keyword.arg != "description"]
    return hashlib.sha256(ast.unparse(tree).encode()).hexdigest()[:12], [*dict.fromkeys(map(str, needed))]


@cache
def _hashing() -> str:
    """Return what affects hashes besides the file: this module, and Python's layout of syntax trees."""
    return f"{sys.version} {hashlib.sha256(Path(__file__).read_bytes()).hexdigest()}"


#: hashes of files; parsing them all takes a second
CODE = FileCache("code.json", _hashing)


def _read(tree: ast.Module, path: Path) -> Iterator[Path]:
    """Yield the files beside a module that it names in calls of ``with_name``."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="with_name"), args=[ast.Constant(value=str(name)), *_]):
                yield from filter(Path.is_file, [path.with_name(name)])


def is_text(statement: ast.AST) -> TypeGuard[ast.Expr]:
    """Return whether a statement is only a string: a docstring, or a string below what it describes."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def executed(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield all statements, after removing docs and imports for type checkers from `tree`."""
    nodes: list[Any] = [tree]
    while nodes:
        node = nodes.pop()
        if isinstance(node, DOCUMENTED) and any(map(is_text, node.body)):
            node.body = [statement for statement in node.body if not is_text(statement)] or [ast.Pass()]
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = [ast.Pass()]
        yield node
        for name in BLOCKS:
            nodes += getattr(node, name, ())


def imported(node: ast.AST, path: Path) -> list[Path]:
    """Return the files of headspec, or beside `path`, that a statement in `path` imports.

    Files beside a module are in its package or, unless the module is installed, in its folder.
    """
    if not isinstance(node, (ast.Import, ast.ImportFrom)):
        return []
    root = import_root(path)
    package = path.relative_to(root).parts[:-1]
    names = _names(node, package)
    library = [name for name in names if name[0] == LIBRARY.name]
    apart = root.name in INSTALLED
    beside = [name for name in names if name not in library and (not apart or name[0] in package[:1])]
    return _files(LIBRARY.parent, library) + _files(root, beside)


def _names(node: ast.Import | ast.ImportFrom, package: Sequence[str]) -> list[list[str]]:
    """Return the parts of all names that a statement in a `package` imports; some may not be modules."""
    if isinstance(node, ast.Import):
        return [alias.name.split(".") for alias in node.names]
    above = package[: len(package) + 1 - node.level] if node.level else ()  # from . import name
    module = [*above, *(node.module.split(".") if node.module else ())]
    return [name for name in [module, *([*module, alias.name] for alias in node.names)] if name]


def _files(root: Path, names: list[list[str]]) -> list[Path]:
    """Return the files below `root` of modules and of the packages that contain them."""
    files = [root.joinpath(*name).with_suffix(".py") for name in names]
    packages = [root.joinpath(*name[: i + 1], "__init__.py") for name in names for i in range(len(name))]
    return [file for file in files + packages if file.exists()]


def import_root(path: Path) -> Path:
    """Return the folder from which a file is imported: the first above it that is not a package."""
    return next(folder for folder in path.parents if not (folder / "__init__.py").exists())
