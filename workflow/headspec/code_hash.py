"""Hashes of the code that a stage runs, which Snakemake compares to decide on a rerun."""

from __future__ import annotations

import ast
import hashlib
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

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
    type checkers, which never run. Imports inside functions count.
    """
    script = Path(script)
    hashes: dict[str, str] = {}
    queue = [script]
    while queue:
        path = queue.pop()
        name = path.relative_to(LIBRARY.parent).as_posix()
        if name not in hashes:
            hashes[name], imported = _code(path, path.stat().st_mtime_ns)
            queue += imported
    return dict(sorted(hashes.items()))


def style() -> str:
    """Hash of the style sheet of the figures."""
    return hashlib.sha256((LIBRARY / "plots" / "drawing" / "headspec.mplstyle").read_bytes()).hexdigest()[:12]


@cache
def _code(path: Path, mtime: int) -> tuple[str, tuple[Path, ...]]:
    """Hash of one file's code, and the library files it imports; `mtime` keeps the cache current."""
    tree = ast.parse(path.read_text(), str(path))
    imported = [file for statement in _executed(tree) for file in _imports(statement)]
    return hashlib.sha256(ast.unparse(tree).encode()).hexdigest()[:12], tuple(imported)


def _executed(tree: ast.Module) -> Iterator[ast.AST]:
    """All statements of `tree`, from which docstrings and imports for type checkers are removed.

    Only lists of statements are searched, which are a small part of a tree.
    """
    nodes: list[Any] = [tree]
    while nodes:
        node = nodes.pop()
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
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
