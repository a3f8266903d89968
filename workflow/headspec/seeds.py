"""Named randomness: every random choice has a seed of its own, derived from the study's."""

from __future__ import annotations

import hashlib
import json


def derive(seed: int, *purpose: str | int) -> int:
    """A seed in [0, 2**63) that depends on `seed` and on every part of `purpose`, and on nothing else.

    Examples
    --------
    >>> np.random.default_rng(derive(study.data_seed, "validation split", "sentiment"))
    """
    digest = hashlib.sha256(json.dumps([seed, *purpose]).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
