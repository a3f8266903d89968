"""Whether gates have learnt to leave as many heads open as they were asked for."""

from __future__ import annotations

#: fraction of the heads by which they may be off
TOLERANCE = 0.05


def missed(expected: float, target: float, heads: int) -> bool:
    """Whether the number of heads `expected` to be open is off its target, among `heads` that learn."""
    return abs(expected - target) > TOLERANCE * heads
