r"""Logarithms with proven error bounds: what decides a draw that floating point cannot decide.

The samplers invert $\ln U$ for a real uniform $U$ of which only the first bits were drawn. They do
so in float64 and keep the result only if no error below a proven bound could change it. The rare
rest draws more bits and decides with `decimal`, whose `ln` and `sqrt` are correctly rounded, so that
a result and its neighbors in the last digit enclose the truth.

The proven bound assumes that float64 logarithms are within 4 units in the last place, array and
scalar code alike (NumPy's vector code and the C libraries in use claim 4 or better). `LOG_ERROR_OK`
is the result of checking this against `decimal` at import; where it fails, every draw takes the
exact path: slow, but right.

References:
    Brisebarre et al., *Table maker's dilemma* (2010): why more digits always decide in the end.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

import numpy as np

_CHECK_POINTS = 96
_CHECK_CONTEXT = Context(prec=24)


def directed_contexts(bits: int) -> tuple[Context, Context]:
    """Contexts that round down and up, with digits to spare for `bits` bits."""
    digits = 30 + bits * 302 // 1000
    return Context(prec=digits, rounding=ROUND_FLOOR), Context(prec=digits, rounding=ROUND_CEILING)


def dyadic(numerator: int, bits: int) -> Decimal:
    """numerator/2^bits, exactly: it is numerator·5^bits / 10^bits."""
    return Decimal(f"{numerator * 5**bits}e-{bits}")


def outward(nearest: Decimal, context: Context) -> Decimal:
    """A bound, on the side to which `context` rounds, of what was rounded to nearest."""
    if context.rounding == ROUND_FLOOR:
        return context.next_minus(nearest)
    return context.next_plus(nearest)


def negative_log(numerator: int, bits: int, context: Context) -> Decimal:
    r"""$−\ln(\text{numerator}/2^{\text{bits}})$, at least 0, rounded outward as `context` rounds.

    From above, a numerator of 0 gives infinity.
    """
    # `ln` rounds to nearest whatever the context says, and the change of sign is exact.
    return max(Decimal(0), outward(context.minus(context.ln(dyadic(numerator, bits))), context))


def _log_error_ok() -> bool:
    """Whether float64 logarithms on [2^−24, 1) are within 4 ulp, array and scalar code alike."""
    steps = np.arange(_CHECK_POINTS)
    small = np.exp2(-24.0 * (steps + 0.37) / _CHECK_POINTS)
    # Near 1 the logarithm is small itself, and its relative error is what counts.
    near_one = 1.0 - small[: _CHECK_POINTS // 4] * 2.0 ** -(steps[: _CHECK_POINTS // 4] % 20)
    points = np.concatenate([small, near_one[near_one < 1.0]])
    for point, array_log in zip(points.tolist(), np.log(points).tolist(), strict=True):
        exact = _CHECK_CONTEXT.ln(Decimal(point))
        limit = 4 * Decimal(math.ulp(array_log))
        if abs(Decimal(array_log) - exact) > limit or abs(Decimal(math.log(point)) - exact) > limit:
            return False
    return True


LOG_ERROR_OK = _log_error_ok()
