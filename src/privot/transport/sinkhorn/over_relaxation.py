r"""How far beyond Sinkhorn's plain step to go, and going there: the rule for ω, from errors seen so far.

In logarithms, the plain step goes from $\log u$ to $-\log s$; the relaxed one goes
ω times as far, 1 ≤ ω < 2. Near the solution the plain error shrinks by a factor $ρ = μ^2$ an
iteration, and ω = 2/(1 + √(1 − ρ)) by ω − 1, which is far less for ρ near 1 (Young). ρ is estimated
from the errors of three plain steps; later, where the errors shrink by r > ω − 1 a step, Young's
relation $(r + ω - 1)^2 = ω^2 μ^2 r$ gives a better μ². If errors grow instead, plain steps, which
cannot diverge, take over for a while.

References:
    Thibault, Chizat, Dossal, Papadakis, *Overrelaxed Sinkhorn–Knopp algorithm for regularized optimal
    transport* (2021). Lehmann, von Renesse, Sambale, Uschmajew, *A note on overrelaxation in the
    Sinkhorn algorithm* (2022). Young, *Iterative methods for solving partial difference equations of
    elliptic type* (1954).
"""

# mypy: allow-untyped-defs

from __future__ import annotations

import math

import numpy as np

from privot.transport.compiled import compiled_part
from privot.transport.sinkhorn.kernel_entries import exp2

_LOG2E, _SQRT2 = math.log2(math.e), math.sqrt(2.0)
_ONE_BITS = 0x3FF0000000000000
_MANTISSA = 0x000FFFFFFFFFFFFF
_PLAIN_FIRST = 3
_PATIENCE = 5
_WINDOW = 3
_LARGEST_OMEGA = 1.995
_GROWN = 3.0
_EXPLODED = 30.0


@compiled_part
def next_omega(omega, errors, now, changed):
    """The next ω, and since which iteration the rule has watched it; `errors` up to index `now`."""
    if omega == 1.0:
        if now - changed >= _PLAIN_FIRST and now >= 3 and errors[now] < errors[now - 2]:
            rate = math.sqrt(errors[now] / errors[now - 2])
            return min(_LARGEST_OMEGA, 2 / (1 + math.sqrt(1 - rate))), now
        return 1.0, changed
    watched = now - changed
    if errors[now] > _EXPLODED * errors[changed]:
        return 1.0, now
    if watched < _PATIENCE or watched < 1 / (2 - omega):
        return omega, changed
    if errors[now] > max(_GROWN, 0.5 / (2 - omega)) * errors[changed]:
        return 1.0, now
    half = max(_WINDOW, watched // 2)
    r = (errors[now] / errors[now - half]) ** (1 / half)
    if r >= 1 and errors[now] > errors[changed]:
        return 1 + 0.9 * (omega - 1), now
    if omega - 1 < r < 1:
        contraction = (r + omega - 1) ** 2 / (omega * omega * r)
        if contraction < 1:
            best = 2 / (1 + math.sqrt(1 - contraction))
            return min(_LARGEST_OMEGA, max(omega, best)), now
    return omega, now


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
