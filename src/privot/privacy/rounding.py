"""Directed rounding of numbers and of printed figures, and the checks of ε and δ.

**Numbers.** A privacy loss that is rounded to nearest can be smaller than the exact loss by half a unit
in the last place, and then the guarantee is false. Sums, products and quotients here are the smallest
float that is not below the exact result. They are computed with exact rational numbers, as every finite
float is rational, and rounded once. Roots are enclosed by `bracket`, whose safe end was evaluated.

**Printed figures.** Upper bounds (ε, δ, ρ, a factor of odds, a diameter, the probability of the truth)
are printed by `at_most`, rounded up; lower bounds (an audit's ε, noise, a confidence) by `at_least`,
rounded down. A float is first replaced by the shortest decimal that converts back to it (0.1 by "0.1");
all later steps are exact. With x the printed number and u one unit of the last requested digit,

    value ≤ x < value + u  (at_most),   value − u < x ≤ value  (at_least).

Values with fewer digits are unchanged, and so are digits before the point: 123456.7 is "123457".
"""

import math
import warnings
from collections.abc import Callable, Iterable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from privot.core.errors import SMALLEST_DELTA, PrivotError, require_finite

_REFUSED_DELTA = 0.1
_ASSUMED_RECORDS = 1000  # if the number of records is unknown
_LARGEST_FACTOR_EPSILON = 34.5  # e^34.5 is about 10^15: no protection
LARGEST_EPSILON = 1000.0  # e^1000 has more than 400 digits


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
    """Narrow (unsafe, safe) around a root of `excess`, with excess(unsafe) > 0 ≥ excess(safe).

    Only points where `excess` was evaluated and is not positive become the safe end. So this end is safe
    even if rounding errors make `excess` non-monotone. Two steps of the Illinois variant of regula falsi
    (Dowell, Jarratt 1971) alternate with a step of bisection, until the ends differ by a relative
    `tolerance`, or are at most `smallest`.
    """
    at_unsafe, at_safe = excess(unsafe), excess(safe)
    step, last_moved = 0, ""
    while abs(unsafe - safe) > tolerance * max(unsafe, safe) > tolerance * smallest:
        step += 1
        middle = unsafe + (safe - unsafe) / 2
        if step % 3 and at_unsafe > at_safe > -math.inf:
            chord = unsafe + (safe - unsafe) * (at_unsafe / (at_unsafe - at_safe))
            # A margin from both ends ensures that every step narrows the bracket.
            margin = 0.4 * tolerance * max(unsafe, safe)
            first, last = sorted((unsafe, safe))
            if last - first > 2 * margin:
                middle = min(max(chord, first + margin), last - margin)
        value = excess(middle)
        # The Illinois rule halves the value at an end that does not move in two steps.
        if value > 0:
            at_safe = at_safe / 2 if last_moved == "unsafe" else at_safe
            unsafe, at_unsafe, last_moved = middle, value, "unsafe"
        else:
            at_unsafe = at_unsafe / 2 if last_moved == "safe" else at_unsafe
            safe, at_safe, last_moved = middle, value, "safe"
    return unsafe, safe


def require_epsilon(epsilon: float) -> None:
    """Raise PrivotError unless 0 < ε ≤ LARGEST_EPSILON."""
    require_finite("epsilon", epsilon, positive=True)
    if epsilon > LARGEST_EPSILON:
        raise PrivotError(f"epsilon is {epsilon!r}: give at most {LARGEST_EPSILON:g}")


def require_delta(delta: float, *, positive: bool = False) -> None:
    """Raise PrivotError unless 0 ≤ δ < 1 (0 < δ < 1 if `positive`)."""
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
    """Raise PrivotError if δ ≥ 1/10, and warn if δ > 1/n for n records.

    Publishing one of n records, drawn at random, is (0, 1/n)-private, because one record changes the
    output's distribution by 1/n in total variation. Sending each record unchanged with probability δ is
    (0, δ)-private locally, and reveals δn of n people on average. So δ must be well below 1/n to protect
    anybody, at any ε. An unknown number of records counts as n = 1000. For fewer records, use noise that
    needs no δ (Laplace, randomized response).

    >>> check_delta(1e-6)
    >>> check_delta(0.5)
    Traceback (most recent call last):
        ...
    privot.core.errors.PrivotError: delta is 0.5: from 0.1 on it promises nothing, ...
    """
    require_delta(delta)
    if delta >= _REFUSED_DELTA:
        raise PrivotError(
            f"delta is {at_most(delta)}: from 0.1 on it promises nothing, for every tenth record may be "
            "published outright; give one well below one over the number of records"
        )
    if delta > 1 / (records or _ASSUMED_RECORDS):
        unknown = f"{_ASSUMED_RECORDS:,} records, and how many there will be is not known"
        among = f"the {records:,} records" if records else unknown
        warnings.warn(
            f"delta is {at_most(delta)}, above one over {among}: publishing a record drawn at random "
            "would keep such a promise; give a smaller delta",
            stacklevel=3,
        )


def at_most(value: float, digits: int = 4) -> str:
    """Return an upper bound as text of at most `digits` significant digits, rounded up.

    >>> at_most(10.0049), at_most(4.0), at_most(1e-6), at_most(0.1)
    ('10.01', '4', '1e-06', '0.1')
    """
    return _text(_decimal(value), digits, ROUND_CEILING)


def at_least(value: float, digits: int = 4) -> str:
    """Return a lower bound as text of at most `digits` significant digits, rounded down.

    >>> at_least(1.38629), at_least(0.999)
    ('1.386', '0.999')
    """
    return _text(_decimal(value), digits, ROUND_FLOOR)


def exactly(value: float) -> str:
    """Return a number as text, with all its digits.

    >>> exactly(0.1), exactly(5.0)
    ('0.1', '5')
    """
    return at_most(value, 17)


def percent_at_most(share: float, digits: int = 3) -> str:
    """Return an upper bound on a share as a percentage, rounded up.

    >>> percent_at_most(0.80261), percent_at_most(1.0)
    ('80.3%', '100%')
    """
    return _text(_decimal(share).scaleb(2, _context(50)), digits, ROUND_CEILING) + "%"


def percent_at_least(share: float, digits: int = 3) -> str:
    """Return a lower bound on a share as a percentage, rounded down.

    >>> percent_at_least(0.80261)
    '80.2%'
    """
    return _text(_decimal(share).scaleb(2, _context(50)), digits, ROUND_FLOOR) + "%"


def odds_factor(epsilon: float) -> str:
    """Return "e^ε = number", with ε rounded up, and e to the printed ε rounded up.

    >>> odds_factor(4.0), odds_factor(10.0049)
    ('e^4 = 55', 'e^10.01 = 23,000')
    """
    power = at_most(epsilon)
    if epsilon == 0:
        return "e^0 = 1 (no change at all)"
    if epsilon > _LARGEST_FACTOR_EPSILON:
        return f"e^{power} (no protection worth the name)"
    precise = _context(50)
    factor = precise.next_plus(precise.exp(Decimal(power)))
    rounded = _context(3 if factor < 10 else 2, ROUND_CEILING).plus(factor)
    text = f"{rounded:,f}"
    return f"e^{power} = {text.rstrip('0').removesuffix('.') if '.' in text else text}"


def _decimal(value: float) -> Decimal:
    return Decimal(repr(float(value)))


def _context(digits: int, rounding: str = ROUND_CEILING) -> Context:
    """Return a context that does not depend on the caller's current decimal context."""
    return Context(digits, rounding, MIN_EMIN, MAX_EMAX, capitals=0, clamp=0, flags=[], traps=[])


def _text(value: Decimal, digits: int, rounding: str) -> str:
    """Return a rounded number as text, with all digits before the point."""
    whole = value.adjusted() + 1 if value.is_finite() else 0
    return repr(float(_context(max(digits, whole), rounding).plus(value))).removesuffix(".0")
