"""Description of a figure, from which its rule is made."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Any, NamedTuple


class Figure(NamedTuple):
    """A figure. Its script calls `draw` of its module with the inputs and params that it takes, by name.

    Attributes
    ----------
    name : of its module in `headspec/plots/`, and among results
    title, category : in the report
    wildcards : in its path
    inputs : tables; lists of them have one for each of the param `seeds`
    params : other arguments
    file : its name among results, if that is another
    """

    name: str
    title: str
    category: str
    wildcards: tuple[str, ...]
    inputs: dict[str, Any]
    params: dict[str, Any] = {}
    file: str = ""

    @property
    def flat(self) -> str:
        """Its name in rules and captions."""
        return "_".join(PurePath(self.name).parts)

    @property
    def path(self) -> str:
        return ".".join([self.file or self.name, *(f"{{{name}}}" for name in self.wildcards)])

    @property
    def message(self) -> str:
        path = re.sub(r"{(\w+)}", r"{wildcards.\1}", self.path)
        return f"Figure {path}"
