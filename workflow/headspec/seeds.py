"""Seeds for named purposes: every random choice derives its own from a seed in the config."""

import hashlib
import json


def derive(seed: int, *purpose: str | int) -> int:
    """Return a seed in [0, 2**63) that depends only on `seed` and `purpose`, such as "split" and a task."""
    digest = hashlib.sha256(json.dumps([seed, *purpose]).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
