"""Hashes of the code that a stage runs, which Snakemake compares to decide on a rerun."""

from __future__ import annotations

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

from headspec.digests import Memory

LIBRARY = Path(__file__).parent
#: fields of syntax trees that hold statements, or what has statements
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
#: folders of installed packages, which are not local to each other
INSTALLED = ("site-packages", "dist-packages")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def make_importable() -> None:
    """Let the scripts of rules, which run as separate processes, import this library."""
    paths = [str(LIBRARY.parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


def closure(script: str | Path) -> dict[str, str]:
    """File: hash of its code, for `script` and all that it imports, directly or indirectly, of headspec and
    from beside it.

    Comments, docstrings and layout do not count, because the syntax tree is hashed. Nor do imports for type
    checkers, which never run. Imports inside functions count, and so do files that a module names
    beside itself, such as a style sheet, by ``with_name``.
    """
    hashes: dict[str, str] = {}
    queue = [str(script)]
    while queue:
        path = queue.pop()
        name = os.path.relpath(path, LIBRARY.parent)
        if name not in hashes:
            hashes[name], imported = SEEN.get(path, _code)
            queue += imported
    SEEN.remember()
    return dict(sorted(hashes.items()))


def current(name: str) -> str:
    """Hash of the code that a file of a `closure` has now; FileNotFoundError if it is gone."""
    return SEEN.get(LIBRARY.parent / name, _code)[0]


def _code(path: str | Path) -> tuple[str, list[str]]:
    """Hash of one file's code, and the library files it needs."""
    path = Path(path)
    if path.suffix != ".py":
        return hashlib.sha256(path.read_bytes()).hexdigest()[:12], []
    tree = ast.parse(path.read_text(), str(path))
    # by default, Python takes compiled code of another file of this size and second for that of this one
    with contextlib.suppress(OSError):  # such as a read-only folder
        py_compile.compile(str(path), invalidation_mode=PycInvalidationMode.CHECKED_HASH, quiet=2)
    imported = [str(file) for each in _executed(tree) for file in _imports(each, path)]
    imported += [str(file) for file in _read(tree, path)]
    return hashlib.sha256(ast.unparse(tree).encode()).hexdigest()[:12], [*dict.fromkeys(imported)]


def _read(tree: ast.Module, path: Path) -> Iterator[Path]:
    """The files beside a module that it names in calls of ``with_name``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            name = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
            if node.func.attr == "with_name" and isinstance(name, str):
                yield from (file for file in [path.with_name(name)] if file.is_file())


@cache
def _by() -> str:
    """What decides on a hash but the file: this module, and the Python that lays out syntax trees."""
    return f"{sys.version} {hashlib.sha256(Path(__file__).read_bytes()).hexdigest()}"


#: hashes of files as they were last read; to parse all files takes a second of every planning
SEEN = Memory("code.json", _by)


def is_text(statement: ast.AST) -> TypeGuard[ast.Expr]:
    """Whether `statement` is a string alone: a docstring, or one below what it describes."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _executed(tree: ast.Module) -> Iterator[ast.AST]:
    """All statements of `tree`, from which docstrings, of names as well, and imports for type checkers are
    removed.

    Only lists of statements are searched, which are a small part of a tree.
    """
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


def _imports(node: ast.AST, path: Path) -> list[Path]:
    """The files that a statement in `path` imports: of headspec, and from beside it.

    The latter are those of its package, or of a folder of modules, but for that of installed packages.
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
    """The parts of all names that a statement in a `package` imports, of which some may be no modules."""
    if isinstance(node, ast.Import):
        return [alias.name.split(".") for alias in node.names]
    above = package[: len(package) + 1 - node.level] if node.level else ()  # from . import name
    module = [*above, *(node.module.split(".") if node.module else ())]
    return [name for name in [module, *([*module, alias.name] for alias in node.names)] if name]


def _files(root: Path, names: list[list[str]]) -> list[Path]:
    """Those of the modules, and of the packages they are in, that are there below `root`."""
    files = [root.joinpath(*name).with_suffix(".py") for name in names]
    packages = [root.joinpath(*name[: i + 1], "__init__.py") for name in names for i in range(len(name))]
    return [file for file in files + packages if file.exists()]


def import_root(path: Path) -> Path:
    """The folder from which a file is imported: the first above it that is no package."""
    return next(folder for folder in path.parents if not (folder / "__init__.py").exists())
