"""What a rule hands a stage of the config: a section's plain values, read as attributes.

The models of `headspec.sections` are for reading and checking a config. A stage does not load
them, so that what they say of other keys is no part of its code.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any


def section(values: Mapping[str, Any], **more: Any) -> Any:
    """`values`, and `more` beside them or in their place, as a section of the config has them."""
    return SimpleNamespace(**{**values, **more})
