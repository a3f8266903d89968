"""Fill the pages with the numbers of the studies that are kept here, and draw their figures.

A folder here is a study that was run: its config, and small tables of its results. In a page, the lines
between `<!-- gates-minilm: budgets -->` and `<!-- end -->` are what a function in `pages` makes of them.
`make docs` brings pages and figures up to date. To keep tables of another study:

    python docs/studies/fill.py results/gates-minilm budgets overlap
"""

import hashlib
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.figure import Figure
from pages import (
    atlas,
    decoders,
    findings,
    five_tasks,
    gates,
    grouping,
    iat,
    parts,
    smollm2,
    translation,
    translation_heads,
    words,
)
from pages.kept import STUDIES

from headspec import tables
from headspec.pipeline import outputs

PAGES = (
    atlas, decoders, findings, five_tasks, gates, grouping, iat, parts, smollm2, translation,
    translation_heads, words,
)  # fmt: skip
BLOCKS: dict[str, Callable[[], str]] = {name: fill for page in PAGES for name, fill in page.BLOCKS.items()}
FIGURES: dict[str, Callable[[], Figure]] = {
    name: draw for page in PAGES for name, draw in page.FIGURES.items()
}
#: of tables in the results of a study
PLACES = ("tables", "runs/*/*/*/seed*")
BLOCK = re.compile(r"<!-- (?P<name>[\w-]+: [\w-]+) -->\n(?P<text>.*?)<!-- end -->", re.DOTALL)


def keep(results: Path, names: Sequence[str]) -> None:
    """Copy tables of a study and of its runs; instead of what they were made from they have its digest."""
    results = results.resolve()
    for name in names:
        paths = [path for place in PLACES for path in results.glob(f"{place}/{name}.parquet")]
        if not paths:
            raise SystemExit(f"{results}: has no table {name}")
        for path in paths:
            footer = tables.footer(path)
            made_from = hashlib.sha256(json.dumps(footer.pop("job"), sort_keys=True).encode()).hexdigest()
            to = STUDIES / results.name / path.relative_to(results)
            to.parent.mkdir(parents=True, exist_ok=True)
            tables.write(to, outputs.schemas()[name], tables.read(path), footer | {"made_from": made_from})


def widen() -> None:
    """Give kept tables the columns that came after them, null; their footers name them as `lacking`."""
    for path in sorted(STUDIES.glob("**/*.parquet")):
        schema, table, footer = outputs.schemas()[path.stem], tables.read(path), tables.footer(path)
        if lacking := [column for column in schema.columns if column not in table]:
            footer["lacking"] = [*footer.get("lacking", []), *lacking]
            tables.write(path, schema, table.reindex(columns=[*schema.columns]), footer)


def filled(page: str) -> str:
    """A page with what its blocks say now."""
    return BLOCK.sub(lambda b: f"<!-- {b['name']} -->\n{BLOCKS[b['name']]()}<!-- end -->", page)


if __name__ == "__main__":
    if sys.argv[1:]:
        keep(Path(sys.argv[1]), sys.argv[2:])
    widen()
    for path in sorted(STUDIES.parent.rglob("*.md")):
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
    for name, figure in FIGURES.items():
        figure().savefig(STUDIES.parent / "assets" / name, dpi=200)
