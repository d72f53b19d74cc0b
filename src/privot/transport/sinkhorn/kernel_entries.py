r"""First potentials and the kernel they give, $K_{ij} = e^{(f_i + g_j − C_{ij})/λ}$, by compiled loops.

Exponents are computed in double precision, where costs far larger than λ do not cancel, whatever the
precision of K. 2^z is a polynomial in the fraction of z, in [−½, ½], times a power of two put into the
exponent's bits, so that the compiler uses vector registers: the library's scalar function would take as
long as fifty sweeps over a kernel.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

import math

import numpy as np

from privot.compiled import compiled, compiled_part, compiled_reordering_part

# Entries below this cannot matter beside scalings within e^±20, and denormals slow sweeps 9×.
_NEGLIGIBLE = 1e-30
_LN2, _LOG2E = math.log(2.0), math.log2(math.e)
# Adding this leaves a number's nearest integer in the low bits of a double.
_ROUND = 6755399441055744.0


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


@compiled_reordering_part
def _zeros(row):
    total = 0.0
    for j in range(row.size):
        total += 0.0 * row[j]
    return total


@compiled_part
def _lowest(row):
    """Minimum, by halves: one comparison after another would be slow. Overwrites the row."""
    count = row.size
    while count > 1:
        half = (count + 1) // 2
        for j in range(count - half):
            row[j] = min(row[j], row[j + half])
        count = half
    return row[0]


@compiled
def shift(cost, f, g):
    """Row minima f of the costs, column minima g of what remains; False if a cost is not finite."""
    n, m = cost.shape
    row = np.empty(m)
    g[:] = np.inf
    finite = True
    for i in range(n):
        for j in range(m):
            row[j] = cost[i, j]
        finite &= _zeros(row) == 0.0
        f[i] = _lowest(row)
        for j in range(m):
            g[j] = min(g[j], cost[i, j] - f[i])
    return finite


@compiled
def build(cost, f, g, reg, kernel):
    """Write K_ij = exp((f_i + g_j − C_ij)/λ), negligible entries as 0."""
    n, m = cost.shape
    row, rounded = np.empty(m), np.empty(m)
    scale = _LOG2E / reg
    for i in range(n):
        fi = f[i]
        for j in range(m):
            row[j] = ((fi - cost[i, j]) + g[j]) * scale
        exp2(row, rounded, m)
        for j in range(m):
            kernel[i, j] = row[j] if row[j] > _NEGLIGIBLE else 0.0
