"""Hiding of passwords and access tokens in messages, logs, configs and pages."""

import os
import re
from typing import Any

HIDDEN = "***"
#: words at the end of secrets' names, even without a separator (PGPASSWORD, accessToken, SSHPASS)
LAST = (
    r"token|jwt|(?<!com)(?<!by)(?<!ask)pass|passw(?:or)?d|passphrase|secret(?:_key_base)?"
    r"|(?:api|auth|account|access|private|secret)[_-]?key"
)
#: words at the end only after a separator; PWD and monkey, for example, are not secrets
APART = r"key|pwd|auth|pat|sig|signature|credentials?"
#: the same in text, where other things also have such names (pad_token, second_pass, a secret class)
NAMED = (
    r"passw(?:or)?d|pwd|passphrase|(?:db|database|key|ssh)[_-]?pass|[_-]secret|jwt"
    r"|(?-i:SECRET|_PASS|_PAT|_AUTH)|(?:api|auth|account|access|private|secret)[_-]?key(?:_base)?"
    r"|(?:access|api|auth|refresh|session|bot)[_-]?token"
)
#: tokens that `_is_random` misses, since they are short or have no capitals, from the rules of detect-secrets
#: and GitHub's secret scanning
TOKENS = (
    r"(?:hf|api_org)_[A-Za-z0-9]{16,}",  # Hugging Face
    r"gh[opsur]_\w{20,}", r"github_pat_\w{20,}", r"gl(?:pat|dt|ft|soat|rt|ptt|cbt|imt|agent)-[\w-]{20,}",
    r"sk-(?=[\w-]{0,99}\d)(?:[\w-]{0,40}[_-])?[A-Za-z0-9]{16,}[\w-]*",  # of model services
    r"(?:gsk|[rs]k_live)_\w{16,}", r"nvapi-[\w-]{16,}", r"do[opr]_v1_\w{16,}",  # Groq, Nvidia
    r"(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}", r"AIza[\w-]{35}", r"ya29\.[\w-]{16,}",  # Amazon, Google
    r"xox[abposr]-[\w-]{10,}", r"npm_[A-Za-z0-9]{36}", r"pypi-Ag[\w-]{50,}",
    r"SG\.[\w-]{16,99}\.[\w-]{16,}", r"eyJ[\w=-]{8,999}\.eyJ[\w=-]{8,}\.[\w.+/=-]*",  # JSON web tokens
)  # fmt: skip
#: text before a secret, which is kept, and the secret; lengths are bounded where the end decides
PATTERNS = [
    re.compile(pattern)
    for pattern in (
        r"(:/+)[^/\s'\"<>]{1,999}(?=@)",  # user and password of an address; a password may hold @
        rf"(?i)([?&;#](?:[\w.-]{{0,40}}(?:{LAST})|(?:[\w.-]{{0,40}}[_.-])?(?:{APART}))=)[^&#\s'\"]+",
        rf"(?i)(?<![\w.-])([\w-]{{0,40}}(?:{NAMED})['\"]?[ \t]*[:=][ \t]*['\"]?)[^\s'\"{{<\[$%*&,;]{{4,}}",
        r"(?<![\w.-])(sig=)[^&#\s'\"]+",  # of an address of Azure, beside it
        rf"(?i)((?<!\S)--(?:[\w-]{{0,40}}-)?(?:{LAST})[ \t]+['\"]?)[^\s'\"$-][^\s'\"]*",  # options
        r"((?<!\S)(?:-u|--(?:proxy-)?user)[ =]['\"]?)[^\s:'\"]{1,99}:[^\s'\"]+",  # user and password of curl
        r"(?i)(\bauthorization['\"]?[ \t]*[:=][ \t]*['\"]?(?:[a-z-]+[ \t]+)?)(?=\S{0,999}\d)[^\s'\"*]{8,}",
        r"(?i)(\b(?:bearer|basic)[ \t]+)(?=\S{0,999}\d)[\w.~+/=-]{16,}",
        r"(//hooks\.slack\.com/(?:services|workflows)/)[\w/]+",
        rf"()(?<![A-Za-z0-9])(?:{'|'.join(TOKENS)})",
        r"(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)(?:(?!-----)[\s\S])+",
    )
]
WORD = re.compile(r"[\w.-]{24,}", re.ASCII)
#: environment variables that hold a secret
NAMES = re.compile(rf"(?i)({LAST}|_({APART})|^(key|auth))$")
#: the password in an address
PASSWORD = re.compile(r"://[^\s/:@]*:([^\s/]+)@")
SHORTEST = 8  # characters of a variable's value; shorter ones would match in common words


def redacted(text: str) -> str:
    """Return `text` with `HIDDEN` in place of every secret.

    Secrets are passwords in addresses, parameters and options, tokens, private keys, and values of
    environment variables such as HF_TOKEN or passwords in them.
    """
    values = [value for name, value in os.environ.items() if NAMES.search(name)]
    values += [password for value in os.environ.values() for password in PASSWORD.findall(value)]
    for value in sorted((v for v in {*values} if len(v) >= SHORTEST), key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    for pattern in PATTERNS:
        text = pattern.sub(rf"\g<1>{HIDDEN}", text)
    return WORD.sub(lambda match: HIDDEN if _is_random(match[0]) else match[0], text)


def _is_random(word: str) -> bool:
    """Return whether a word is a prefix and a random part, as tokens are.

    The random part has at least 24 letters and digits, including three each of digits, upper- and lower-case
    letters. Prefixes are not listed, because services keep adding new ones.
    """
    return any(
        len(part) >= 24
        and min(sum(map(is_of, part)) for is_of in (str.isdigit, str.isupper, str.islower)) >= 3
        for part in re.split("[._-]", word)[1:]
    )


def cleared(content: Any, cache: dict[str, str] | None = None) -> Any:
    """Return `content` with all strings in its lists and mappings `redacted`; `cache` has earlier results."""
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
