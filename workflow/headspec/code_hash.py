"""Hashes of the code that a stage runs, which Snakemake compares to decide on a rerun."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from headspec import files
from headspec.errors import DataError, StorageError

LIBRARY = Path(__file__).parent
#: hashes of files as they were last read; to parse all files takes a second of every planning
SEEN = Path(".snakemake/headspec/code.json")
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
    seen = _seen(os.getcwd())
    known, queue = len(seen), [str(script)]
    while queue:
        path = queue.pop()
        name = os.path.relpath(path, LIBRARY.parent)
        if name not in hashes:
            status = os.stat(path)
            entry = f"{path} {status.st_size} {status.st_mtime_ns}"
            if entry not in seen:
                seen[entry] = _code(Path(path))
            hashes[name], imported = seen[entry]
            queue += imported
    if len(seen) > known:
        _remember(seen)
    return dict(sorted(hashes.items()))


def style() -> str:
    """Hash of the style sheet of the figures."""
    return hashlib.sha256((LIBRARY / "plots" / "drawing" / "headspec.mplstyle").read_bytes()).hexdigest()[:12]


def _code(path: Path) -> tuple[str, list[str]]:
    """Hash of one file's code, and the library files it imports."""
    tree = ast.parse(path.read_text(), str(path))
    imported = [str(file) for statement in _executed(tree) for file in _imports(statement)]
    return hashlib.sha256(ast.unparse(tree).encode()).hexdigest()[:12], [*dict.fromkeys(imported)]


@cache
def _seen(folder: str) -> dict[str, tuple[str, list[str]]]:
    """The hashes of `SEEN` in a working folder, by path, size and time; none if others wrote them."""
    try:
        files.check(Path(folder, SEEN))
        stored = json.loads(Path(folder, SEEN).read_text())
        return stored["files"] if stored["by"] == _by() else {}
    except (DataError, OSError, ValueError, KeyError, TypeError):
        return {}


def _remember(seen: dict[str, tuple[str, list[str]]]) -> None:
    """Store what is `_seen`, of files that are still as they were."""
    current = {entry: code for entry, code in seen.items() if _current(entry)}
    # without it, files are read again
    with contextlib.suppress(OSError, StorageError), files.atomic(SEEN) as temporary:
        temporary.write_text(json.dumps({"by": _by(), "files": current, "seal": files.OPEN}))
        files.seal(temporary)


def _current(entry: str) -> bool:
    path, size, mtime = entry.rsplit(" ", 2)
    with contextlib.suppress(OSError):
        status = os.stat(path)
        return (status.st_size, status.st_mtime_ns) == (int(size), int(mtime))
    return False


@cache
def _by() -> str:
    """What decides on a hash but the file: this module, and the Python that lays out syntax trees."""
    return f"{sys.version} {hashlib.sha256(Path(__file__).read_bytes()).hexdigest()}"


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
