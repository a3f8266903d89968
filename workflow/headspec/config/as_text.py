"""Values as text: stored ones, to compare with labels and filters of a config, and numbers in paths."""

from __future__ import annotations

import re


def as_text(value: object) -> str:
    """A stored value as text; 1, 1.0 and "1" give the same text, and so do true and True."""
    text = re.sub(r"^([+-]?\d+)\.0+$", r"\1", str(value).strip())
    return text.lower() if text in ("True", "False") else text


def named(value: float) -> str:
    """A number of the config in the name of a path, by six digits."""
    return f"{value:g}"


def kept_by(value: object) -> list[str]:
    """The values that a filter keeps, as text; `value` is one value or a list."""
    return [as_text(v) for v in (value if isinstance(value, (list, tuple)) else [value])]
