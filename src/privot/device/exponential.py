r"""Rational bounds of $e^x$, from whole numbers alone.

With $t = x/2^j ≤ 1$, in units of $2^{−p}$ and every step rounded down, $\sum_{i < n} t^i/i!$ is at
most $e^t$; every step rounded up, and with twice the next term added (the rest is less, as each term
is at most half of the one before it), it is at least $e^t$. Squared j times, rounded the same way,
they enclose $e^x$.
"""

from __future__ import annotations

from fractions import Fraction

_BITS, _TERMS = 320, 64
LARGEST = 2**16  # beyond, a lower bound is that of this number, and there is no upper one


def exp_below(x: Fraction) -> Fraction:
    """A rational number at most e^x, for x ≥ 0; within 2^−200 of it, relatively, for x ≤ 2^16.

    >>> exp_below(Fraction(0))
    Fraction(1, 1)
    >>> float(exp_below(Fraction(1)))
    2.718281828459045
    """
    halvings, unit = _halvings(min(x, Fraction(LARGEST)))
    total, term = 0, 1 << _BITS
    for i in range(1, _TERMS + 1):
        total += term
        term = term * unit.numerator // (unit.denominator * i)
    for _ in range(halvings):
        total = total * total >> _BITS
    return Fraction(total, 1 << _BITS)


def exp_above(x: Fraction) -> Fraction:
    """A rational number at least e^x, for 0 ≤ x ≤ 2^16."""
    halvings, unit = _halvings(x)
    total, term = 0, 1 << _BITS
    for i in range(1, _TERMS + 1):
        total += term
        term = -(-term * unit.numerator // (unit.denominator * i))
    total += 2 * term if x else 0
    for _ in range(halvings):
        total = -(-total * total >> _BITS)
    return Fraction(total, 1 << _BITS)


def _halvings(x: Fraction) -> tuple[int, Fraction]:
    halvings = 0
    while x > 1 << halvings:
        halvings += 1
    return halvings, x / (1 << halvings)
