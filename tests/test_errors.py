"""The wording of errors."""

from __future__ import annotations

from headspec.errors import LISTED, listing


def test_long_lists_are_cut_and_counted():
    names = [f"n{i}" for i in range(LISTED + 1)]
    assert listing(names[:-1]) == ", ".join(names[:-1])
    assert listing(iter(names)) == ", ".join(names[:-1]) + f", ... ({len(names)} in all)"
    assert listing([]) == "nothing" and listing(["a", " "]) == "a, ' '"
