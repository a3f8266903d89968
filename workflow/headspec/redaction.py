"""Hiding of passwords and access tokens in messages, logs, configs and pages."""

import os
import re
from typing import Any

HIDDEN = "***"
#: words that end the name of a secret, even without a separator (PGPASSWORD, accessToken)
LAST = r"token|passw(?:or)?d|passphrase|secret|(?:api|auth|account|access|private|secret)[_-]?key"
#: words that do so only after a separator; PWD and monkey, for example, are no secrets
APART = r"key|pass|pwd|auth|pat|sig|signature|credentials?"
#: the same in text, where other things have such names, too (pad_token, second_pass, a secret class)
NAMED = (
    r"passw(?:or)?d|pwd|passphrase|(?:db|database|key)[_-]?pass|[_-]secret|(?-i:SECRET|_PASS|_PAT|_AUTH)"
    r"|(?:api|auth|account|access|private|secret)[_-]?key|(?:access|api|auth|refresh|session|bot)[_-]?token"
)
#: as in the rules of detect-secrets and GitHub's secret scanning
TOKENS = (
    r"hf_[A-Za-z0-9]{16,}",  # Hugging Face
    r"gh[opsur]_\w{20,}", r"github_pat_\w{20,}", r"gl(?:pat|dt|ft|soat|rt|ptt|cbt|imt|agent)-[\w-]{20,}",
    r"sk-(?=[\w-]{0,99}\d)(?:[\w-]{0,40}[_-])?[A-Za-z0-9]{16,}[\w-]*",  # of model services
    r"[rs]k_live_\w{16,}",  # Stripe
    r"(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}", r"AIza[\w-]{35}",  # Amazon, Google
    r"xox[abposr]-[\w-]{10,}", r"npm_[A-Za-z0-9]{36}", r"pypi-Ag[\w-]{50,}",
    r"SG\.[\w-]{16,99}\.[\w-]{16,}", r"eyJ[\w=-]{8,999}\.eyJ[\w=-]{8,}\.[\w.+/=-]*",  # JSON web tokens
)  # fmt: skip
#: the text before a secret, which is kept, and the secret; length is bounded where the end decides
PATTERNS = [
    re.compile(pattern)
    for pattern in (
        r"(:/+)[^/\s@]{1,999}(?=@)",  # user and password of an address
        rf"(?i)([?&;#](?:[\w.-]{{0,40}}(?:{LAST})|(?:[\w.-]{{0,40}}[_.-])?(?:{APART}))=)[^&#\s'\"]+",
        rf"(?i)(?<![\w.-])([\w-]{{0,40}}(?:{NAMED})['\"]?[ \t]*[:=][ \t]*['\"]?)[^\s'\"{{<\[$%*&,;]{{4,}}",
        r"(?i)(\b(?:bearer|basic)[ \t]+)(?=\S{0,999}\d)[\w.~+/=-]{16,}",  # of the header Authorization
        rf"()(?<![A-Za-z0-9])(?:{'|'.join(TOKENS)})",
        r"(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)(?:(?!-----)[\s\S])+",
    )
]
#: environment variables that hold a secret
NAMES = re.compile(rf"(?i)({LAST}|_({APART})|^(key|pass|auth))$")
SHORTEST = 8  # characters of a variable's value; shorter ones would match in common words


def redacted(text: str) -> str:
    """Return `text` with `HIDDEN` in place of every secret: passwords in addresses and parameters, tokens of
    well-known services, private keys, and values of environment variables such as HF_TOKEN.
    """
    values = {v for name, v in os.environ.items() if len(v) >= SHORTEST and NAMES.search(name)}
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    for pattern in PATTERNS:
        text = pattern.sub(rf"\g<1>{HIDDEN}", text)
    return text


def cleared(content: Any, known: dict[str, str] | None = None) -> Any:
    """Return `content` with every text in its lists and mappings `redacted`; `known` caches texts."""
    known = {} if known is None else known
    if isinstance(content, dict):
        return {cleared(key, known): cleared(value, known) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [cleared(value, known) for value in content]
    if isinstance(content, str):
        if content not in known:
            known[content] = redacted(content)
        return known[content]
    return content
