import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from privot.privacy.rounding import divide_up, multiply_up, round_up, sum_up

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
