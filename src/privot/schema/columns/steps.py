r"""Steps: numbers that occur at multiples of something, counted in it.

Prices to the cent, doses to half a gram: values are $x = o + k s$ with whole numbers k, and the column
is one of integers then, as a date is one of days. Bins hold whole steps, and what is written is the
decimal that a person would write.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from privot.errors import PrivotError
from privot.schema.domains.domain import Array

_MOST_STEPS = 2**48
_FINER = 3  # decimals more of what lies between steps
_NEAR = 6  # decimals of a step: values off by less lie on it


@dataclass(frozen=True)
class Steps:
    """Numbers $o + k s$.

    Arguments:
        origin: The number o, at step 0.
        size: Of a step, s.
        digits: Decimals that such numbers have.

    Examples:
        >>> cents = Steps.to_decimals(2)
        >>> cents.count(np.array([0.07, 1.28])).round().tolist()
        [7.0, 128.0]
        >>> cents.value(np.array([7.0, 30.0])).tolist()
        [0.07, 0.3]
    """

    origin: float
    size: float
    digits: int

    @classmethod
    def to_decimals(cls, decimals: int) -> Steps:
        """Numbers of some decimals."""
        return cls(0.0, 10.0**-decimals, decimals)

    @classmethod
    def through(cls, low: float, size: float) -> Steps:
        """Numbers that are whole steps from `low`; 0 is step 0 where it is one of them."""
        digits = max(_decimals(low), _decimals(size))
        origin = round(low - size * math.floor(round(low / size, _NEAR)), digits)
        return cls(origin, size, digits)

    def count(self, values: Array) -> Array:
        """Steps of values, not rounded."""
        return np.asarray((values - self.origin) / self.size)

    def value(self, counts: Array) -> Array:
        """Values of steps, rounded to their decimals."""
        return np.asarray(np.round(self.origin + counts * self.size, self.digits))

    def between(self, counts: Array) -> Array:
        """Values of counts that need not be whole: means, or centers of bins."""
        return np.asarray(np.round(self.origin + counts * self.size, self.digits + _FINER))

    def place(self, value: float) -> float:
        """Where a value lies among the steps; on one, if it is off by a rounding."""
        return round((value - self.origin) / self.size, _NEAR)

    def exactly(self, value: float, what: str) -> float:
        """The whole step that a declared value is.

        Raises:
            PrivotError: if it is none, or more than can be counted.
        """
        count = self.place(value)
        if count != round(count):
            raise PrivotError(
                f"{what} {value:.15g} lies between the values that occur, which are {self.size:.15g} "
                f"apart: correct it, or the decimals or step"
            )
        if abs(count) > _MOST_STEPS:
            raise PrivotError(
                f"{what} {value:.15g} has too many steps of {self.size:.15g}: give larger ones"
            )
        return count


def _decimals(number: float) -> int:
    """How many decimals a number is written with.

    >>> [_decimals(x) for x in (100.0, 0.25, 1e-6)]
    [0, 2, 6]
    """
    exponent = Decimal(repr(number)).normalize().as_tuple().exponent
    return max(0, -int(exponent))
