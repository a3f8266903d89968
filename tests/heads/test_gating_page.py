"""The numbers of wrong ways to close a head, on the page about them."""

import re

import pytest

from support import pages
from support.paths import ROOT

PAGE = ROOT / "docs/code/gating.md"


def test_the_page_has_the_numbers_of_its_code():
    names: dict = {}
    for block in pages.blocks(PAGE):
        if block.language == "python":
            exec(block.text, names)
    text = PAGE.read_text(encoding="utf-8")
    rows = [float(number) for number in re.findall(r"^\| [^|]+ \| ([\d.]+) \|$", text, re.MULTILINE)]
    assert rows == pytest.approx([names[name] for name in ("whole", "wrong", "right", "gated")], abs=0.011)
    assert names["wrong"] > 0.9 * names["whole"] and names["right"] == names["gated"] == 0
    assert names["ignored"] and names["applied"]
    keys, values = (float(number) for number in re.findall(r"\(output_slice\)\)  # ([\d.]+)", text))
    assert (names["keys"], names["values"]) == pytest.approx((keys, values), abs=0.011)
    assert names["in_time"] < 1e-5 and f"off by {names['late']:.2f} on average" in text


@pytest.mark.parametrize("page", ["code/notebook.md", "code/from-transformers-4.md"])
def test_pages_on_ones_own_model_begin_with_the_installation(page):
    first, *_ = pages.blocks(ROOT / "docs" / page)
    assert first.text == "pip install headspec\n"
