"""Hiding of passwords and access tokens in messages, logs, configs and pages."""

import os
import re
from typing import Any

HIDDEN = "***"
#: environment variables that hold a secret, by the ends of their names; PWD, PATH and MONKEY are others
NAMES = re.compile(
    r"(?i)(token|secret(_key_base)?|passw(or)?d|passphrase|credentials?|(?<!com)(?<!by)(?<!ask)pass"
    r"|(^|_|api|access)key|(^|_)(auth|jwt|pat)|_pwd)$"
)
#: user and password of an address, which may have been made a path; a password may hold @
USER = re.compile(r"(:/+)([^/\s'\"<>]{1,999})(?=@)")
SHORTEST = 8  # characters of a variable's value; shorter ones would match in common words


def redacted(text: str) -> str:
    """Return `text` with `HIDDEN` in place of every secret.

    Secrets are the user and password of any address, the values of environment variables such as HF_TOKEN,
    and passwords of addresses in any variable; values of fewer than `SHORTEST` characters are kept.
    """
    values = [value for name, value in os.environ.items() if NAMES.search(name)]
    users = (user for value in os.environ.values() for _, user in USER.findall(value))
    values += [password for user in users if (password := user.partition(":")[2])]
    for value in sorted((v for v in {*values} if len(v) >= SHORTEST), key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return USER.sub(rf"\1{HIDDEN}", text)


def cleared(content: Any, cache: dict[str, str] | None = None) -> Any:
    """Return `content` with all strings in its lists and mappings `redacted`; `cache` keeps results."""
    cache = {} if cache is None else cache
    if isinstance(content, dict):
        return {cleared(key, cache): cleared(value, cache) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [cleared(value, cache) for value in content]
    if isinstance(content, str):
        if content not in cache:
            cache[content] = redacted(content)
        return cache[content]
    return content
