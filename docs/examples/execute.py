"""Run a notebook in this process: ``python docs/examples/execute.py NOTEBOOK`` stores what cells show."""

import ast
import base64
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
from matplotlib import pyplot  # noqa: E402


def run(notebook: dict[str, Any]) -> dict[str, Any]:
    """Run all cells in order, replace their outputs, and return the names that they leave."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(each for each in notebook["cells"] if each["cell_type"] == "code"):
        *statements, last = ast.parse("".join(cell["source"])).body
        printed, shown = io.StringIO(), None
        with contextlib.redirect_stdout(printed):
            if isinstance(last, ast.Expr):
                exec(compile(ast.Module(statements, []), f"cell {number + 1}", "exec"), names)
                shown = eval(compile(ast.Expression(last.value), f"cell {number + 1}", "eval"), names)
            else:
                exec(compile(ast.Module([*statements, last], []), f"cell {number + 1}", "exec"), names)
        text = printed.getvalue()
        pictures = [_picture(figure) for figure in map(pyplot.figure, pyplot.get_fignums())]
        if shown is not None and not pictures:
            text += f"{shown}\n"
        cell["execution_count"] = number + 1
        lines = text.splitlines(keepends=True)
        cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": lines}] if lines else []
        cell["outputs"] += pictures
    return names


def _picture(figure: Any) -> dict[str, Any]:
    """Return a figure as an output of a cell, and close it."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=80, bbox_inches="tight")
    pyplot.close(figure)
    data = {"image/png": base64.b64encode(file.getvalue()).decode(), "text/plain": ["a figure"]}
    return {"output_type": "display_data", "data": data, "metadata": {}}


def main(path: Path) -> None:
    """Run the notebook in a file, and write it with its outputs."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    run(notebook)
    path.write_text(json.dumps(notebook, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
