"""Lengths rounded up: a diameter is an upper bound, to the last bit of its float."""

import math
from fractions import Fraction

from privot.errors import PrivotError


def up(exact: Fraction | int) -> float:
    """The float nearest to an exact number from above."""
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def sqrt_up(square: Fraction | int) -> float:
    """The root of an exact number, nearly the float nearest to it from above, and never below it."""
    root = math.sqrt(square)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root


def check_norm(norm: int) -> None:
    """Refuse a norm other than ℓ1 and ℓ2.

    Raises:
        PrivotError: naming it.
    """
    if norm not in (1, 2):
        raise PrivotError(f"norm {norm!r} is not known: use 1 or 2")
