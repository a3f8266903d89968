"""The code that a stage reaches, by content: what Snakemake compares to decide on a rerun."""

from __future__ import annotations

import ast
import hashlib
import os
from functools import cache
from pathlib import Path

LIBRARY = Path(__file__).parent
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def make_importable() -> None:
    """Let the scripts of rules, which run in processes of their own, import this library."""
    paths = [str(LIBRARY.parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


def closure(script: str | Path) -> dict[str, str]:
    """File: hash of its code, for `script` and every headspec module it imports, however indirectly.

    Comments, docstrings and layout are ignored: the hash is of the syntax tree, written out again.
    So are imports for type checkers, which never run. Imports inside functions count.
    """
    script = Path(script)
    found: dict[str, str] = {}
    queue = [script]
    while queue:
        path = queue.pop()
        name = path.relative_to(LIBRARY.parent).as_posix()
        if name not in found:
            found[name], imported = _code(path, path.stat().st_mtime_ns)
            queue += imported
    return dict(sorted(found.items()))


def style() -> str:
    """Hash of the style sheet of the figures."""
    return hashlib.sha256((LIBRARY / "plots" / "headspec.mplstyle").read_bytes()).hexdigest()[:12]


@cache
def _code(path: Path, changed: int) -> tuple[str, tuple[Path, ...]]:
    """Hash of one file's code, and the library files it imports."""
    tree = _Run().visit(ast.parse(path.read_text(), str(path)))
    imported = [file for node in ast.walk(tree) for file in _imports(node)]
    return hashlib.sha256(ast.unparse(tree).encode()).hexdigest()[:12], tuple(imported)


class _Run(ast.NodeTransformer):
    """Leaves of a file what runs: no docstrings, and nothing that is for type checkers alone."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        return super().generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = [ast.Pass()]
        return self.generic_visit(node)


def _imports(node: ast.AST) -> list[Path]:
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module:
        names = [node.module] + [f"{node.module}.{alias.name}" for alias in node.names]
    else:
        return []
    parts = [name.split(".")[1:] for name in names if name.split(".")[0] == "headspec"]
    files = [LIBRARY.joinpath(*p).with_suffix(".py") for p in parts if p]
    packages = [LIBRARY.joinpath(*p[:depth], "__init__.py") for p in parts for depth in range(len(p) + 1)]
    return [file for file in files + packages if file.exists()]
