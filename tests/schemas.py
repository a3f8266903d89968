"""The schema of every table by the table's name, gathered from the modules that fill them."""

from __future__ import annotations

import importlib

from headspec import sources
from headspec.tables import Schema

SCHEMAS: dict[str, Schema] = {}
for path in sorted(sources.LIBRARY.rglob("*.py")):
    if "Schema(" in path.read_text():
        name = ".".join(path.relative_to(sources.LIBRARY.parent).with_suffix("").parts)
        found = vars(importlib.import_module(name))
        SCHEMAS |= {name.lower(): value for name, value in found.items() if isinstance(value, Schema)}
        SCHEMAS |= found.get("SCHEMAS", {})
