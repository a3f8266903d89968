"""Edits of a study, made before it is planned again."""

import ast
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
