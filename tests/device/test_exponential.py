"""Bounds of the exponential: on their sides, and close, against mpmath."""

from fractions import Fraction

import mpmath
import pytest

from privot.device.exact import exp_above, exp_below

NUMBERS = [0.0, 2.0**-60, 0.1, 0.9999, 1.0, 1.5, 2.0, 4.0, 39.99, 700.0, 2.0**16]


@pytest.mark.parametrize("x", NUMBERS)
def test_the_exponential_is_enclosed(x):
    with mpmath.workprec(100_000):
        exact = mpmath.exp(mpmath.mpf(x))
        low, high = (
            mpmath.mpf(n.numerator) / n.denominator
            for n in (exp_below(Fraction(x)), exp_above(Fraction(x)))
        )
        assert low <= exact <= high
        assert (high - low) / exact < 2.0**-200
    assert x or exp_below(Fraction(0)) == exp_above(Fraction(0)) == 1


def test_beyond_its_range_the_lower_bound_stays_one():
    assert exp_below(Fraction(10**9)) == exp_below(Fraction(2**16))
