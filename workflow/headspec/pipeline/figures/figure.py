"""A figure, from which its rule is made."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from headspec.pipeline.jobs.job import Job
from headspec.pipeline.layout import Layout

#: values of wildcards
Group = tuple[str, ...]
Arguments = dict[str, Callable[[Job], Any]]


class Figure(NamedTuple):
    """A figure, or one for each group; its function takes tables, arguments and wildcards by name."""

    name: str  #: of its caption in `report/`, and among results
    drawn_by: str  #: its function in `headspec/plots/`, ``<path>:<name>``
    title: str  #: in the report
    category: str  #: in the report
    wildcards: Group  #: in its path
    #: those that a study has, by the values of the wildcards
    groups: Callable[[Layout], Iterable[Group]]
    #: by name: in `tables/`; a path in results, of all seeds if it has `{seed}`; or paths, by a function
    tables: Mapping[str, str | Callable[[Job], Any]]
    arguments: Arguments = {}
    file: str = ""  #: its name among results, if not `name`

    @property
    def rule(self) -> str:
        """The name of its rule."""
        return "figure_" + self.name.replace("/", "_")

    @property
    def path(self) -> str:
        return ".".join([self.file or self.name, *(f"{{{name}}}" for name in self.wildcards)])

    @property
    def message(self) -> str:
        path = re.sub(r"{(\w+)}", r"{wildcards.\1}", self.path)
        return f"Figure {path}"

    def inputs(self, layout: Layout) -> dict[str, Any]:
        """Return its tables: paths, lists of the paths of all seeds, or functions of a job."""
        return {
            name: table if callable(table) else _paths(table, layout) for name, table in self.tables.items()
        }


def _paths(table: str, layout: Layout) -> str | list[str]:
    path = layout.result(f"{table}.parquet" if "/" in table else f"tables/{table}.parquet")
    each = [path.replace("{seed}", str(seed)) for seed in layout.study.seeds]
    return each if "{seed}" in path else path
