"""Passwords and access tokens, kept out of messages and logs."""

from __future__ import annotations

import os
import re

HIDDEN = "***"
PATTERNS = (
    r"(:/+)[^/\s@]+(?=@)",  # user and password of an address
    r"(?i)([?&;][\w-]*(?:token|key|secret|password|signature|sig)=)[^&#\s'\"]+",
    r"()\bhf_[A-Za-z0-9]{16,}",  # a token of the Hugging Face hub
)
#: environment variables that hold a secret
NAMES = re.compile(r"(^|_)(TOKEN|PASSWORD|SECRET|KEY)$")
SHORTEST = 8  # characters of a variable's value; a shorter one would be found in common words


def redacted(text: str) -> str:
    """`text` with `HIDDEN` in place of every secret.

    Secrets are user and password in addresses, values of parameters such as ``?token=``, tokens of the
    Hugging Face hub, and the values of environment variables such as HF_TOKEN.
    """
    values = {v for name, v in os.environ.items() if len(v) >= SHORTEST and NAMES.search(name)}
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    for pattern in PATTERNS:
        text = re.sub(pattern, rf"\g<1>{HIDDEN}", text)
    return text
