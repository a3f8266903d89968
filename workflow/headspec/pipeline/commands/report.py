"""The opening of the report."""

import base64
import mimetypes
import re
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from headspec import tables
from headspec.pipeline.commands import findings
from headspec.pipeline.figures.figure import Figure

#: the figure that opens the report
MAIN = "dissociation"
#: maximum characters in a line
LINE = 5000


def opening(results: Path, figures: Iterable[Figure], finished: dict[str, bool] | None) -> dict[str, Any]:
    """Return the opening of `workflow/report/workflow.rst`.

    `found`: sentences on the results; `image`: the main figure as lines of a data URI; `figures`: category,
    title and name of those that exist. `finished` tells, for files named relative to `results`, whether they
    are current; None takes all.
    """
    paths = [results / "tables" / f"{name}.parquet" for name in ("combined", *findings.OPTIONAL)]
    frames = {path.stem: tables.read(path) for path in paths if _current(results, path, finished)}
    current = [path for path in sorted((results / "figures").rglob("*")) if _current(results, path, finished)]
    images = [path for path in current if path.stem == MAIN and path.suffix in (".svg", ".png")]
    names = [path.relative_to(results / "figures").as_posix() for path in current]
    return {
        "found": findings.lines(frames),
        "image": _data_uri(images[-1]) if images else [],
        "figures": [(f.category, f.title, f.name) for f in figures if any(map(_pattern(f).match, names))],
    }


def _current(results: Path, path: Path, finished: dict[str, bool] | None) -> bool:
    """Return whether a file exists and is current."""
    return path.is_file() and (finished is None or finished.get(path.relative_to(results).as_posix(), False))


def _pattern(figure: Figure) -> re.Pattern[str]:
    """Return a pattern for the file names of a figure, relative to the folder of figures."""
    return re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(figure.path)) + r"\.\w+$")


def _data_uri(path: Path) -> list[str]:
    """Return a file as a data URI, split into lines because docutils refuses long lines."""
    content = base64.b64encode(path.read_bytes()).decode()
    return textwrap.wrap(f"data:{mimetypes.guess_type(path)[0]};base64,{content}", LINE)
