"""Numbers as people read them: no value of a cable, disk or clock is shown with an exponent."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railbed.model.text import duration, number, size


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (number(0), "0"),
        (number(-1234.5), "−1,234"),
        (number(0.000012), "1.2e−05"),
        (number(math.inf), "∞"),
        (number(123_456.7), "123,457"),
        (number(999.97), "1000"),
        (number(0.1, 3), "0.100"),
        (number(99.96, 3), "100"),
        (size(999), "999 B"),
        (size(999_999), "1.00 MB"),
        (size(2**30), "1.07 GB"),
        (duration(14.25), "14.2 s"),
        (duration(0.095), "95.0 ms"),
        (duration(0.99999), "1,000 ms"),
    ],
)
def test_worded(text: str, wanted: str) -> None:
    assert text == wanted


@given(st.floats(1e-3, 1e15), st.integers(3, 6))
def test_nothing_is_lost_but_the_digits_that_do_not_count(value: float, digits: int) -> None:
    text = number(value, digits)
    assert "e" not in text
    assert float(text.replace(",", "")) == pytest.approx(value, rel=0.51 * 10 ** (1 - digits))
