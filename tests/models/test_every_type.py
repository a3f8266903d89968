"""Heads of every text type of transformers: each is gated and proven, or refused with a reason."""

from __future__ import annotations

import pytest

from headspec.models.architectures import types
from headspec.models.gates import HeadGates
from support import every_type

KINDS = [kind for kind in types() if kind not in every_type.REFUSED]


@pytest.mark.parametrize("kind", KINDS)
def test_heads_are_found_and_gated(kind):
    gates = HeadGates(every_type.model(kind))
    assert gates.exists.any()
