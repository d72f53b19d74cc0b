"""Directed rounding: floating-point results that err on the safe side only.

A privacy loss that is rounded to nearest can be smaller than the truth by half a unit in the
last place, and then the promise is false. The functions here return the smallest float that is
not below the exact result (or the largest not above it): they compute with exact rational
numbers (every finite float is one) and round once, in the direction asked for.
"""

import math
import sys
from collections.abc import Iterable
from fractions import Fraction

from privot.errors import PrivotError
from privot.limits import SMALLEST_DELTA


def round_up(exact: Fraction) -> float:
    """Return the smallest float that is at least `exact`.

    >>> round_up(Fraction(1, 10)) >= Fraction(1, 10)
    True
    """
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def sum_up(values: Iterable[float]) -> float:
    """Return the sum of finite floats, rounded up.

    >>> sum_up([1.0, 2.0])
    3.0
    """
    return round_up(sum((Fraction(value) for value in values), Fraction(0)))


def multiply_up(*factors: float) -> float:
    """Return the product of finite floats, rounded up."""
    return round_up(math.prod((Fraction(factor) for factor in factors), start=Fraction(1)))


def divide_up(numerator: float, denominator: float) -> float:
    """Return the quotient of two finite floats, rounded up.

    >>> Fraction(divide_up(1.0, 3.0)) * 3 >= 1
    True
    """
    return round_up(Fraction(numerator) / Fraction(denominator))


def require_finite(name: str, value: float, *, positive: bool = False) -> None:
    """Refuse a number that is not finite, or negative (or, with `positive`, zero).

    Raises:
        PrivotError: naming the argument, its value and the remedy.
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    # An integer may be larger than any float, and have more digits than anybody reads.
    if not number or not 0 <= value <= sys.float_info.max or (positive and value == 0):
        wanted = "finite and positive" if positive else "finite and at least 0"
        raise PrivotError(f"{name} is {value!r:.40}: give a number that is {wanted}")


def require_delta(delta: float, *, positive: bool = False) -> None:
    """Refuse a δ outside [0, 1) (with `positive`, outside (0, 1)).

    Raises:
        PrivotError: naming the value and the remedy.
    """
    if not 0 <= delta < 1 or (positive and delta == 0):
        interval = "0 < delta < 1" if positive else "0 <= delta < 1"
        raise PrivotError(
            f"delta is {delta!r}: give {interval}, well below one over the number of people"
        )
    if 0 < delta < SMALLEST_DELTA:
        raise PrivotError(
            f"delta is {delta!r}: give at least {SMALLEST_DELTA:g} (floats lose their digits below), "
            "or use pure noise"
        )
