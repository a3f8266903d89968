"""Tables of the studies that are kept, and how pages write numbers."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from headspec import tables

STUDIES = Path(__file__).parents[1]


def table(study: str, name: str) -> pd.DataFrame:
    """A kept table of a study."""
    return tables.read(STUDIES / study / "tables" / f"{name}.parquet")


def config(study: str) -> dict[str, Any]:
    """The kept config of a study."""
    return yaml.safe_load((STUDIES / study / "config.yaml").read_text(encoding="utf-8"))


def of_runs(study: str, name: str, method: str = "*") -> dict[int, pd.DataFrame]:
    """A kept table of every run of a study of one model and mixture, by seed; of one method, too."""
    paths = sorted((STUDIES / study).glob(f"runs/*/*/{method}/seed*/{name}.parquet"))
    return {int(path.parent.name.removeprefix("seed")): tables.read(path) for path in paths}


def markdown(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    """A table as Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"|{'|'.join(line)}|" for line in lines) + "\n"


def dissociation(row: pd.Series) -> str:
    """D with its interval, and a mark where a pruned model is at chance."""
    return points(row["dissociation"], row["ci_low"], row["ci_high"]) + (" †" if row["at_chance"] else "")


def bullets(lines: Iterable[str]) -> str:
    """A list as Markdown."""
    return "".join(f"- {line}\n" for line in lines)


def sides(rows: pd.DataFrame) -> str:
    """How many intervals of differences exclude 0: ``of 9 intervals 1 is above 0, none below``."""
    above, below = int((rows["ci_low"] > 0).sum()), int((rows["ci_high"] < 0).sum())
    if not above and not below:
        return f"none of {len(rows)} intervals excludes 0"
    verb = "is" if above == 1 else "are"
    return f"of {len(rows)} intervals {above or 'none'} {verb} above 0, {below or 'none'} below"


def points(value: float, low: float, high: float) -> str:
    """A difference in points, with its interval."""
    return f"{100 * value:+.1f} [{100 * low:.1f}, {100 * high:.1f}]"
