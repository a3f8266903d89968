"""Sections of the config as rules pass them to stages: plain values, read as attributes.

Stages do not import the models of `headspec.config.sections`, which read and check a config. Otherwise a
change to an unrelated key would be a change to their code, and rerun them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any


def section(values: Mapping[str, Any], **more: Any) -> Any:
    """An object with `values` as attributes, extended or overridden by `more`."""
    return SimpleNamespace(**{**values, **more})
