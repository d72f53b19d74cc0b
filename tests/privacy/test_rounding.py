"""Directed rounding, safe ends of brackets, and which δ are refused or warned of."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privot.errors import PrivotError
from privot.privacy.rounding import bracket, check_delta, divide_up, multiply_up, round_up, sum_up

floats = st.floats(-1e150, 1e150).filter(lambda x: x == 0 or abs(x) > 1e-150)


def is_smallest_float_above(result, exact):
    return exact <= Fraction(result) and Fraction(math.nextafter(result, -math.inf)) < exact


@given(floats, floats)
def test_every_operation_returns_the_smallest_safe_float(a, b):
    assert is_smallest_float_above(sum_up([a, b]), Fraction(a) + Fraction(b))
    assert is_smallest_float_above(multiply_up(a, b), Fraction(a) * Fraction(b))
    if b:
        assert is_smallest_float_above(divide_up(a, b), Fraction(a) / Fraction(b))


def test_overflow_is_infinite_and_so_refused_later():
    assert round_up(Fraction(10) ** 400) == math.inf


@given(st.floats(1e-6, 1e6), st.sampled_from([-1, 1]))
def test_the_safe_end_of_a_bracket_is_safe_and_near_the_root(root, side):
    """Of a function that steps to −∞ on its safe side, and wiggles beside its root."""

    def excess(x):
        past = side * (x / root - 1) + 1e-14 * math.sin(1e15 * x / root)
        return -math.inf if past > 0.5 else -past

    ends = (root * 1e-3, root * 1.4) if side > 0 else (root * 2.0, root * 0.7)
    unsafe, safe = bracket(excess, *ends, tolerance=1e-12)
    assert excess(safe) <= 0 < excess(unsafe)
    assert abs(safe / root - 1) < 3e-12


def test_deltas_that_promise_nothing_are_refused_and_large_ones_warned_of(recwarn):
    check_delta(1e-6, 100_000)
    assert not recwarn
    with pytest.warns(UserWarning, match="above one over the 2,000,000 records"):
        check_delta(1e-6, 2_000_000)
    with pytest.warns(UserWarning, match="above one over 1,000 records, and how many"):
        check_delta(0.01)
    for delta, words in ((0.1, "every tenth record"), (1.0, "give 0 <= delta < 1")):
        with pytest.raises(PrivotError, match=words):
            check_delta(delta)
