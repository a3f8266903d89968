"""Descriptions of figures, from which rules are made."""

import re
from typing import Any, NamedTuple


class Figure(NamedTuple):
    """A figure; its script calls its function with those inputs and params that it takes, by name."""

    name: str  #: of its caption in `report/`, and among results
    drawn_by: str  #: its function in `headspec/plots/`, ``<path>:<name>``
    title: str  #: in the report
    category: str  #: in the report
    wildcards: tuple[str, ...]  #: in its path
    inputs: dict[str, Any]  #: tables; a list has one for each seed in the param `seeds`
    params: dict[str, Any] = {}  #: other arguments
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
