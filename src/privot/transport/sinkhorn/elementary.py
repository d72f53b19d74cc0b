"""Powers over arrays, written so that the compiler uses vector registers.

2^z is a polynomial in the fraction of z, in [−½, ½], times a power of two put into the exponent's bits.
The library's scalar function would take as long as fifty sweeps over a kernel.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

import math

import numpy as np

from privot.transport.compiled import compiled_part

_LN2 = math.log(2.0)
_LOG2E = math.log2(math.e)
_SQRT2 = math.sqrt(2.0)
# Adding this leaves a number's nearest integer in the low bits of a double.
_ROUND = 6755399441055744.0
_ONE_BITS = 0x3FF0000000000000
_MANTISSA = 0x000FFFFFFFFFFFFF


@compiled_part
def exp2(z, rounded, count):
    """Replace z by 2^z, from 2^−1000 to 2^1000; relative error 1e-15."""
    for j in range(count):
        z[j] = min(max(z[j], -1000.0), 1000.0)
        rounded[j] = z[j] + _ROUND
    bits, powers = rounded.view(np.int64), z.view(np.int64)
    for j in range(count):
        x = (z[j] - (rounded[j] - _ROUND)) * _LN2
        p = (1 / 6227020800 * x + 1 / 479001600) * x + 1 / 39916800
        p = (((p * x + 1 / 3628800) * x + 1 / 362880) * x + 1 / 40320) * x + 1 / 5040
        p = ((((p * x + 1 / 720) * x + 1 / 120) * x + 1 / 24) * x + 1 / 6) * x + 0.5
        z[j] = (p * x + 1.0) * x + 1.0
    for j in range(count):
        powers[j] += bits[j] << 52


@compiled_part
def move(x, towards, omega, count, scratch, rounded):
    """Replace positive x by x·(towards/x)^ω: ω times as far in logarithms, up to a millionth of ω.

    The logarithm of 2^k·m, 1 ≤ m < 2, is k plus the series of the inverse hyperbolic tangent.
    """
    for j in range(count):
        scratch[j] = towards[j] / x[j] * _SQRT2
    bits, mantissas = scratch.view(np.int64), rounded.view(np.int64)
    for j in range(count):
        mantissas[j] = (bits[j] & _MANTISSA) | _ONE_BITS
    for j in range(count):
        m = rounded[j]
        s = (m - _SQRT2) / (m + _SQRT2)
        q = s * s
        series = (((q / 7 + 1 / 5) * q + 1 / 3) * q + 1.0) * s * (2 * _LOG2E)
        scratch[j] = omega * (float((bits[j] >> 52) - 1023) + series)
    exp2(scratch, rounded, count)
    for j in range(count):
        x[j] *= scratch[j]
