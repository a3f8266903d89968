"""Values as text, for comparison with a config's labels or for paths."""

import re


def as_text(value: object) -> str:
    """Return a stored value as text; 1, 1.0 and "1" give the same text, as do true, True and TRUE."""
    text = re.sub(r"^([+-]?\d+)\.0+$", r"\1", str(value).strip())
    return text.lower() if text.lower() in ("true", "false") else text


def named(value: float) -> str:
    """Return a number of the config as part of a path, with six significant digits."""
    return f"{value:g}"


def kept_by(value: object) -> list[str]:
    """Return the values that a filter (one value or a list) keeps, as text."""
    return [as_text(v) for v in (value if isinstance(value, (list, tuple)) else [value])]
