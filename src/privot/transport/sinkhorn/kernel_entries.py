r"""First potentials and the kernel they give, $K_{ij} = e^{(f_i + g_j − C_{ij})/λ}$, by compiled loops.

Exponents are computed in double precision, where costs far larger than λ do not cancel, whatever the
precision of K. Powers of two are polynomials times exponent bits, so that the compiler can use vector
registers.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

import math

import numpy as np

from privot.transport.compiled import compiled, compiled_part, compiled_reordering_part
from privot.transport.sinkhorn.elementary import exp2

# Entries below this cannot matter beside scalings within e^±20, and denormals slow sweeps 9×.
_NEGLIGIBLE = 1e-30
_LOG2E = math.log2(math.e)


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
def fit_rows(cost, g, f):
    """Row potentials f_i = min_j C_ij − g_j; False if one is not finite.

    No entry of the kernel then exceeds 1, and one in each row is 1.
    """
    n, m = cost.shape
    row = np.empty(m)
    finite = True
    for i in range(n):
        for j in range(m):
            row[j] = cost[i, j] - g[j]
        finite &= _zeros(row) == 0.0
        f[i] = _lowest(row)
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
