"""Hashes of the code that a stage runs, which Snakemake compares to decide on a rerun."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import os
import py_compile
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Any, TypeGuard

from headspec.digests import Memory

LIBRARY = Path(__file__).parent
#: fields of syntax trees that hold statements, or what has statements
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def make_importable() -> None:
    """Let the scripts of rules, which run as separate processes, import this library."""
    paths = [str(LIBRARY.parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


def closure(script: str | Path) -> dict[str, str]:
    """File: hash of its code, for `script` and every headspec module it imports, directly or indirectly.

    Comments, docstrings and layout do not count, because the syntax tree is hashed. Nor do imports for
    type checkers, which never run. Imports inside functions count, and so does a style sheet beside a module.
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
    imported = [str(file) for statement in _executed(tree) for file in _imports(statement)]
    imported += map(str, path.parent.glob("*.mplstyle")) if path.stem == "style" else []
    return hashlib.sha256(ast.unparse(tree).encode()).hexdigest()[:12], [*dict.fromkeys(imported)]


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


def _imports(node: ast.AST) -> list[Path]:
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module:
        names = [node.module] + [f"{node.module}.{alias.name}" for alias in node.names]
    else:
        return []
    paths = [name.split(".")[1:] for name in names if name.split(".")[0] == "headspec"]
    files = [LIBRARY.joinpath(*path).with_suffix(".py") for path in paths if path]
    packages = [
        LIBRARY.joinpath(*path[:depth], "__init__.py") for path in paths for depth in range(len(path) + 1)
    ]
    return [file for file in files + packages if file.exists()]
