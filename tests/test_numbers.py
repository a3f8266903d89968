"""Numbers as text, on screens and in figures."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headspec.numbers import MISSING, hundredths, number, plain


@pytest.mark.parametrize("missing", [None, math.nan, np.float64("nan"), np.float32("nan")])
@pytest.mark.parametrize("written", [plain, hundredths, number])
def test_a_missing_number_is_a_dash(written, missing):
    assert written(missing) == MISSING


@given(st.floats(-1e6, 1e6), st.integers(0, 4))
def test_a_number_is_the_nearest_with_its_digits_and_0_has_no_sign(value, digits):
    text = plain(value, digits)
    assert abs(float(text) - value) <= 0.5 * 10.0**-digits + 1e-9 * abs(value)
    assert text.startswith("-") == (float(text) < 0)
    assert number(value, digits) == text.replace("-", "\N{MINUS SIGN}")
    assert hundredths(value / 100, digits).lstrip("-") == plain(abs(100 * (value / 100)), digits)
