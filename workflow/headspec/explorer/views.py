"""The views of the page: what each shows, and the tables that it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from headspec import tables
from headspec.errors import MissingError
from headspec.explorer.contents import (
    INTERVAL,
    MARKED,
    bounded,
    decided,
    found,
    gain_predictions,
    gains,
    improvement,
    probes,
    pruning,
    similarity,
)
from headspec.explorer.heads import GROUP, heads
from headspec.explorer.study_tables import Columns, Run, StudyTables, json_columns

if TYPE_CHECKING:
    from headspec.config.study import Study  # loads kinds of tasks, which jobs do not need

#: columns of a table, or a function of the tables
Content = Sequence[str] | Callable[[StudyTables], Any]


@dataclass(frozen=True)
class View:
    """A view of the page, drawn by the entry of its name in `PAGES`, from a script in `assets/views`."""

    title: str  #: in the navigation
    of: str = "all"  #: the target or section of the config that makes its tables
    shows: Mapping[str, Content] = field(default_factory=dict)  #: by table, or by name in the script
    reads: Sequence[str] = ()  #: tables of the study that functions in `shows` read

    @property
    def tables(self) -> list[str]:
        """The tables of the study that it shows."""
        return [*(name for name, content in self.shows.items() if not callable(content)), *self.reads]


D = [*GROUP, "task", "n_seeds", "fraction", "dissociation", *INTERVAL, *MARKED]
D += ["case", "distinct"]
#: in the order of the navigation
VIEWS = {
    "study": View("Study", shows={"combined": D, "found": found}, reads=("areas", "contrasts")),
    "mixture": View("Mixture", shows={"fractions": D, "pruning": pruning}, reads=("dissociation",)),
    "heads": View(
        "Heads", "atlas", {"heads": heads}, ("head_roles", "heads", "single_heads", "task_differences")
    ),
    "belief": View("Measures", "atlas", {
        "belief": [
            *GROUP, "task", "ranking", "n_seeds",
            *bounded("ablation_spearman", "ablation_size_spearman", "area", "difference", "dissociation"),
            "difference_p", "dissociation_p", "p_of", *MARKED,
        ],
        "pruning_curves": [
            *GROUP, "task", "ranking", "order", "metric", "fraction", "value", "draws_low", "draws_high",
        ],
        "agreement": [*GROUP, "task", "measure_a", "measure_b", *bounded("spearman", "top_overlap")],
    }),
    "similarity": View("Similarity", "similarity", {
        "correlation": [
            "model", "measure", "n_pairs", "pearson_r", "p_mantel", "spearman_r", "p_mantel_spearman",
        ],
        "similarity": similarity,
    }, ("similarity",)),
    "iat": View("IAT", "iat", {"improvement": improvement}, ("improvement", "specialization")),
    "gates": View("Gates", "gates", {
        "budgets": [
            *GROUP, "scope", "way", "fraction", "penalty", "task", "metric", "against", "heads", "missed",
            "n_seeds", *bounded("value"), "difference", *INTERVAL, *MARKED,
        ],
    }, ("gates",)),
    "words": View("Words", "probes", {
        "sharing": [
            *GROUP, "task", "metric", "n_seeds", "value", "difference", *INTERVAL, *MARKED,
        ],
        "probes": probes,
    }, ("probes", "probe_changes")),
    "grouping": View("Grouping", "grouping", {
        "gain_prediction_scores": [
            "model", "predictor", "held_out", *bounded("spearman"), "p_value", "p_holm",
            "right_side", "over_baseline", "error_ratio", "detectable", "n_tasks", "n_gains",
            "reliability",
        ],
        "gains": gains, "gain_predictions": gain_predictions,
    }, ("gains", "gain_predictions")),
    "glossary": View("Glossary"),
    "provenance": View("Provenance"),
}  # fmt: skip
#: tables of a study, and of a run, that any view shows
STUDY_TABLES = tuple(dict.fromkeys(name for view in VIEWS.values() for name in view.tables))
RUN_TABLES = ("importance", "pruning")


def asked(study: Study) -> list[str]:
    """Return the tables of a study that the page shows."""
    has = {
        "all": True,
        "similarity": bool(study.similarity.measures),
        "iat": "iat" in study.methods and bool(study.iat.mixtures),
    }
    return [
        name for view in VIEWS.values() if has.get(view.of, view.of in study.methods) for name in view.tables
    ]


def find_tables(results: Path) -> list[Path]:
    """Return the paths of tables in the results of a study; raise MissingError if there are none."""
    paths = [path for name in STUDY_TABLES if (path := results / "tables" / f"{name}.parquet").exists()]
    for name in RUN_TABLES:
        paths += sorted(results.glob(f"runs/*/*/*/seed*/{name}.parquet"))
    if not paths:
        raise MissingError(f"{results}: expected results of a study, such as results/demo; it has no tables")
    return paths


def load_tables(paths: Iterable[str | Path]) -> StudyTables:
    """Return those of the tables at `paths`, of a study and its runs, that any view shows."""
    study = StudyTables(STUDY_TABLES)
    runs: dict[tuple[str, str, str, int], Run] = {}
    for path in sorted(set(map(Path, paths))):
        name, parts = path.stem, path.parts
        if name in RUN_TABLES and parts[-6] == "runs":
            model, mixture, method, seed = parts[-5:-1]
            key = (model, mixture, method, int(seed.removeprefix("seed")))
            run = runs.setdefault(key, Run(*key))
            run.tables[name] = tables.read(path)
        elif name in STUDY_TABLES:
            study.tables[name] = tables.read(path)
        else:
            continue
        study.footers["/".join(parts[-6:] if name in RUN_TABLES else parts[-2:])] = tables.footer(path)
    study.runs.extend(runs.values())
    return study


def contents(study: StudyTables) -> dict[str, Any]:
    """Return what all views show, by name; empty where the study has no such tables."""
    shown = {name: content for view in VIEWS.values() for name, content in view.shows.items()}
    return {
        name: content(study) if callable(content) else _columns(study.table(name), content)
        for name, content in shown.items()
    }


def _columns(frame: pd.DataFrame | None, names: Sequence[str]) -> Columns:
    return {} if frame is None else json_columns(decided(frame), names)
