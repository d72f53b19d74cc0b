"""Figures as they are printed: rounded to the side on which they stay true.

A loss that is printed too small promises more than holds. So what bounds a loss from above (ε, δ, ρ,
a factor of odds, a diameter, the chance of the truth) is printed by `at_most`, rounded up; what
bounds one from below (an audit's ε, noise that protects, a confidence) by `at_least`, rounded down.
A float stands for the shortest decimal that is read back as it (0.1 is "0.1"), and from that decimal
on everything is exact: with x the number read from the text,

    value ≤ x < value + u  (at_most),   value − u < x ≤ value  (at_least),

u being one unit of the last digit that was asked for; a value of no more digits is printed as it is.
Numbers are never cut before the point: 123456.7 is "123457".
"""

from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal

# Beyond this ε a factor is no protection, and nobody reads its digits.
_LARGEST_FACTOR_EPSILON = 34.5  # e^34.5 is about 10^15
EVERY_DIGIT = 17


def at_most(value: float, digits: int = 4) -> str:
    """Return an upper bound as text, of so many significant digits.

    >>> at_most(10.0049), at_most(4.0), at_most(1e-6), at_most(0.1)
    ('10.01', '4', '1e-06', '0.1')
    """
    return _text(_decimal(value), digits, ROUND_CEILING)


def at_least(value: float, digits: int = 4) -> str:
    """Return a lower bound as text, of so many significant digits.

    >>> at_least(1.38629), at_least(0.999)
    ('1.386', '0.999')
    """
    return _text(_decimal(value), digits, ROUND_FLOOR)


def exactly(value: float) -> str:
    """Return what was given, as it was given.

    >>> exactly(0.1), exactly(5.0)
    ('0.1', '5')
    """
    return at_most(value, EVERY_DIGIT)


def percent_at_most(share: float, digits: int = 3) -> str:
    """Return an upper bound on a share as text.

    >>> percent_at_most(0.80261), percent_at_most(1.0)
    ('80.3%', '100%')
    """
    return _text(_decimal(share).scaleb(2, _context(50)), digits, ROUND_CEILING) + "%"


def percent_at_least(share: float, digits: int = 3) -> str:
    """Return a lower bound on a share as text.

    >>> percent_at_least(0.80261)
    '80.2%'
    """
    return _text(_decimal(share).scaleb(2, _context(50)), digits, ROUND_FLOOR) + "%"


def odds_factor(epsilon: float) -> str:
    """Return "e^ε = number": ε rounded up, and e to what stands there, rounded up once more.

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
    return f"e^{power} = {_grouped(_rounded(factor, 3 if factor < 10 else 2, ROUND_CEILING))}"


def _decimal(value: float) -> Decimal:
    return Decimal(repr(float(value)))


def _context(digits: int, rounding: str = ROUND_CEILING) -> Context:
    """A context of its own: whatever a program sets for its decimals changes no figure."""
    return Context(digits, rounding, MIN_EMIN, MAX_EMAX, capitals=0, clamp=0, flags=[], traps=[])


def _rounded(value: Decimal, digits: int, rounding: str) -> Decimal:
    return _context(digits, rounding).plus(value)


def _text(value: Decimal, digits: int, rounding: str) -> str:
    whole = value.adjusted() + 1 if value.is_finite() else 0
    text = repr(float(_rounded(value, max(digits, whole), rounding)))
    return text.removesuffix(".0")


def _grouped(value: Decimal) -> str:
    """Plain digits, thousands set apart, without zeros after the point's last digit."""
    text = f"{value:,f}"
    return text.rstrip("0").removesuffix(".") if "." in text else text
