"""Edits of a study, made before it is planned again."""

import ast
import itertools
from collections.abc import Callable

from support.running.studies import Folder


def setting(key: str, value: object) -> Callable[[Folder], None]:
    return lambda study: study.set(key, value)


def at_import(name: str) -> Callable[[Folder], None]:
    """New code in a file of the workflow, which counts for all that imports it."""

    def change(study: Folder) -> None:
        assert (study.path / "workflow" / name).exists()
        with open(study.path / "workflow" / name, "a") as file:
            file.write("\nassert __name__\n")

    return change


def within(name: str, function: str, code: str = "assert __name__") -> Callable[[Folder], None]:
    """New code before the last statement of a function of a file of the workflow."""

    def change(study: Folder) -> None:
        path = study.path / "workflow" / name
        found = next(
            each for each in ast.parse(path.read_text()).body if getattr(each, "name", "") == function
        )
        lines = path.read_text().splitlines(keepends=True)
        last = found.body[-1]
        lines.insert(last.lineno - 1, f"{last.col_offset * ' '}{code}\n")
        path.write_text("".join(lines))

    return change


def reworded(name: str, described: str) -> Callable[[Folder], None]:
    """More words in the description of a key of the config, or in the text below a schema."""

    def change(study: Folder) -> None:
        text = (study.path / "workflow" / name).read_text()
        bodies = (getattr(node, "body", None) for node in ast.walk(ast.parse(text)))
        pairs = (
            pair for body in bodies if isinstance(body, list) for pair in itertools.pairwise([*body, None])
        )
        ((node, below),) = (pair for pair in pairs if _target(pair[0]) == described)
        parts = ast.walk(below if isinstance(below, ast.Expr) else node)
        old = [ast.get_source_segment(text, part) or "" for part in parts if _is_text(part)][-1]
        quotes = old[-3:] if old.startswith('"""') else old[-1:]
        study.replace(f"workflow/{name}", old, f"{old.removesuffix(quotes)} or so{quotes}")

    return change


def _target(node: ast.AST | None) -> str:
    """The name that a statement assigns to."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return getattr(targets[0], "id", "")


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
