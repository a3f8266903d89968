"""The wording of errors."""

import pytest

from headspec.errors import LISTED, QUOTE, listing, nearest


def test_long_lists_are_cut_and_counted():
    names = [f"n{i}" for i in range(LISTED + 1)]
    assert listing(names[:-1]) == ", ".join(names[:-1])
    assert listing(iter(names)) == ", ".join(names[:-1]) + f", ... ({len(names)} in all)"
    assert listing([]) == "nothing" and listing(["a", " "]) == "a, ' '"


@pytest.mark.parametrize(
    ("name", "valid", "quoted"),
    [
        ("true", ["no", "yes"], True), ("False", ["OFF", "ON"], True), ("yes", ["true", "false"], True),
        ("true", ["true", "yes"], False), ("true", ["good", "bad"], False), ("no", ["yes"], False),
    ],
)  # fmt: skip
def test_words_that_yaml_reads_as_booleans_are_to_be_quoted(name, valid, quoted):
    assert (nearest(name, valid) == QUOTE) == quoted
