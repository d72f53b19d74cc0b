"""Directed rounding: floating-point results that err on the safe side only.

A privacy loss that is rounded to nearest can be smaller than the truth by half a unit in the
last place, and then the promise is false. Sums, products and quotients here are the smallest float
that is not below the exact result: they are computed with exact rational numbers (every finite float
is one) and rounded once. What has no closed form is enclosed by `bracket`, whose safe end was checked.
"""

import math
import sys
import warnings
from collections.abc import Callable, Iterable
from fractions import Fraction

from privot.errors import PrivotError
from privot.limits import SMALLEST_DELTA
from privot.privacy.guarantees.figures import at_most

# A δ from which nothing is promised; and the records that a δ is for, where nobody has said how many.
_REFUSED_DELTA, _FEWEST = 0.1, 1000


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


def bracket(
    excess: Callable[[float], float],
    unsafe: float,
    safe: float,
    tolerance: float,
    smallest: float = 0.0,
) -> tuple[float, float]:
    """Return (unsafe, safe), within a relative tolerance, with excess > 0 at one and ≤ 0 at the other.

    `excess` changes sign between `unsafe`, where it is positive, and `safe`, where it is not. Only
    points where it is not positive ever become the safe end, so that whatever is returned is safe,
    even where rounding makes `excess` wiggle. Steps alternate: two of regula falsi in its Illinois
    variant (Dowell, Jarratt 1971), one of bisection, for certainty. Two ends below `smallest` will do.
    """
    high, low = excess(unsafe), excess(safe)
    step, side = 0, 0
    while abs(unsafe - safe) > tolerance * max(unsafe, safe) > tolerance * smallest:
        step += 1
        middle = unsafe + (safe - unsafe) / 2
        if step % 3 and high > low > -math.inf:
            chord = unsafe + (safe - unsafe) * (high / (high - low))
            # Not nearer to an end than a part of the tolerance: a step must not stand still.
            margin = 0.4 * tolerance * max(unsafe, safe)
            first, last = sorted((unsafe, safe))
            if last - first > 2 * margin:
                middle = min(max(chord, first + margin), last - margin)
        value = excess(middle)
        # An end that stays a second time is given half its weight.
        if value > 0:
            unsafe, high, low = middle, value, low / 2 if side > 0 else low
            side = 1
        else:
            safe, low, high = middle, value, high / 2 if side < 0 else high
            side = -1
    return unsafe, safe


def require_finite(name: str, value: float, *, positive: bool = False) -> None:
    """Refuse a number that is not finite, or negative (or, with `positive`, zero)."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    # An integer may be larger than any float, and have more digits than anybody reads.
    if not number or not 0 <= value <= sys.float_info.max or (positive and value == 0):
        wanted = "finite and positive" if positive else "finite and at least 0"
        raise PrivotError(f"{name} is {value!r:.40}: give a number that is {wanted}")


def require_delta(delta: float, *, positive: bool = False) -> None:
    """Refuse a δ outside [0, 1) (with `positive`, outside (0, 1))."""
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


def check_delta(delta: float, records: int | None = None) -> None:
    """Refuse a δ of 1/10 or more, and warn of one above one over the number of records.

    To publish one of n records, drawn at random, is (0, 1/n)-private: its law moves by 1/n in total
    variation when one record changes. To send one's record outright with probability δ is (0, δ)-private
    locally, and of n people δn are then seen on average. So a δ above 1/n allows what nobody would call
    private, whatever ε is, and must be well below. Where nobody has said how many records there will be,
    n counts as 1000: for fewer, use noise that needs no δ (Laplace, randomized response).

    >>> check_delta(1e-6)
    >>> check_delta(0.5)
    Traceback (most recent call last):
        ...
    privot.errors.PrivotError: delta is 0.5: from 0.1 on it promises nothing, ...
    """
    require_delta(delta)
    if delta >= _REFUSED_DELTA:
        raise PrivotError(
            f"delta is {at_most(delta)}: from 0.1 on it promises nothing, for every tenth record may be "
            "published outright; give one well below one over the number of records"
        )
    if delta > 1 / (records or _FEWEST):
        unknown = f"{_FEWEST:,} records, and how many there will be is not known"
        among = f"the {records:,} records" if records else unknown
        warnings.warn(
            f"delta is {at_most(delta)}, above one over {among}: publishing a record drawn at random "
            "would keep such a promise; give a smaller delta",
            stacklevel=3,
        )
