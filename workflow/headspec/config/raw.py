"""Checks of a config as read from YAML for values that no key may have."""

from collections.abc import Iterator
from typing import Any

from headspec.redaction import redacted

LARGEST = 10**18  # numbers beyond 64 bits overflow in jobs
MOST = 10_000  # values; a few lines of YAML with nested aliases can exceed this
DEEPEST = 50  # nested mappings and lists
SECRET = (
    "holds a password or token, which would be written into results; remove it. The hub's token is read "
    "from the variable HF_TOKEN"
)
#: text that makes Snakemake run Python from a config
PROGRAM = "__use_yte__"


def forbidden(config: Any) -> list[str]:
    """Return a line for each value that is a secret, too large, not text in UTF-8, or a program.

    Footers would publish secrets. A config with too many or too deeply nested values has a line as well.
    """
    messages: list[str] = []
    for count, (keys, value) in enumerate(_values(config)):
        if len(keys) > DEEPEST or count > MOST:
            limit = f"{DEEPEST} levels" if len(keys) > DEEPEST else f"{MOST} values"
            return [*messages, f"{_dotted(keys[:3])}: holds itself or too much; expected at most {limit}."]
        messages += [f"{_dotted(keys)}: {problem}." for problem in _wrong(keys, value)]
    return messages


def _values(node: Any, keys: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield every value with its keys, mappings and lists before their contents."""
    yield keys, node
    if len(keys) <= DEEPEST and isinstance(node, (dict, list, tuple, set)):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            yield from _values(value, (*keys, key))


def _wrong(keys: tuple[Any, ...], value: Any) -> Iterator[str]:
    key = keys[-1] if keys else ""
    if key == PROGRAM:
        yield "runs the Python code in a config, expected a config without code"
    for text in (key, value):
        if isinstance(text, int) and abs(text) > LARGEST:
            yield f"got a number of more than {len(str(LARGEST)) - 1} digits, expected a smaller number"
        if isinstance(text, str) and redacted(text) != text:
            yield SECRET
        if isinstance(text, str) and _unwritable(text):
            yield "has characters that cannot be written as UTF-8, expected text"


def _unwritable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return True
    return "\0" in text


def _dotted(keys: tuple[Any, ...]) -> str:
    names = ("?" if isinstance(key, int) and abs(key) > LARGEST else str(key)[:80] for key in keys)
    return ".".join(names) or "config"
