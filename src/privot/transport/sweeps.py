r"""The loops of Sinkhorn's algorithm on the CPU: shift, kernel, fused sweeps, plan.

**Sweep.** One iteration, $s = K(bv)$, $u = 1/s$, $t = K^⊤(au)$, $v = 1/t$, reads K once: row i gives
$s_i$, hence $u_i$, and is still in the cache when $a_i u_i K_{i·}$ is added to t. The row marginal's
error before the step, $\sum_i a_i |u_i s_i - 1|$, comes free.

**Over-relaxation.** In logarithms, the plain step goes from $\log u$ to $-\log s$; the relaxed one goes
ω times as far, 1 ≤ ω < 2. Near the solution the plain error shrinks by a factor $ρ = μ^2$ an
iteration, and ω = 2/(1 + √(1 − ρ)) by ω − 1, which is far less for ρ near 1 (Young). ρ is estimated
from the errors of three plain steps; later, where the errors shrink by r > ω − 1 a step, Young's
relation $(r + ω - 1)^2 = ω^2 μ^2 r$ gives a better μ². If errors grow instead, plain steps, which
cannot diverge, take over for a while. The last step is plain, so that columns are exact.

**Precision.** Exponents $(f_i + g_j - C_{ij})/λ$ are computed in double precision, where costs far
larger than λ do not cancel; K, in single or double, is summed in its own precision. Powers of two are
polynomials times exponent bits, so that the compiler can use vector registers.

References:
    Thibault, Chizat, Dossal, Papadakis, *Overrelaxed Sinkhorn–Knopp algorithm for regularized optimal
    transport* (2021). Lehmann, von Renesse, Sambale, Uschmajew, *A note on overrelaxation in the
    Sinkhorn algorithm* (2022). Young, *Iterative methods for solving partial difference equations of
    elliptic type* (1954). Schmitzer, *Stabilized sparse scaling algorithms* (2019).
"""

# mypy: allow-untyped-defs

from __future__ import annotations

import math

import numpy as np

from privot.transport.compiled import compiled, compiled_reordering
from privot.transport.elementary import exp2, move

CONVERGED, ABSORB, EXHAUSTED, BROKEN = 0, 1, 2, 3

# Kernel entries below this cannot matter beside scalings within e^±20, and denormals slow sweeps 9×.
_NEGLIGIBLE = 1e-30
_LOG2E = math.log2(math.e)

_ROWS = 16
_PLAIN_FIRST = 3
_PATIENCE = 5
_WINDOW = 3
_LARGEST_OMEGA = 1.995
_GROWN = 3.0
_EXPLODED = 30.0


@compiled_reordering
def _zeros(row):
    total = 0.0
    for j in range(row.size):
        total += 0.0 * row[j]
    return total


@compiled
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


@compiled_reordering
def _dot4(kernel, i, w, out, q):
    s0 = s1 = s2 = s3 = w.dtype.type(0)
    for j in range(w.size):
        x = w[j]
        s0 += kernel[i, j] * x
        s1 += kernel[i + 1, j] * x
        s2 += kernel[i + 2, j] * x
        s3 += kernel[i + 3, j] * x
    out[q], out[q + 1], out[q + 2], out[q + 3] = s0, s1, s2, s3


@compiled_reordering
def _dot1(kernel, i, w, out, q):
    s = w.dtype.type(0)
    for j in range(w.size):
        s += kernel[i, j] * w[j]
    out[q] = s


@compiled_reordering
def _add4(kernel, i, c, q, t):
    c0, c1, c2, c3 = c[q], c[q + 1], c[q + 2], c[q + 3]
    for j in range(t.size):
        t[j] += (c0 * kernel[i, j] + c1 * kernel[i + 1, j]) + (
            c2 * kernel[i + 2, j] + c3 * kernel[i + 3, j]
        )


@compiled_reordering
def _add1(kernel, i, c, q, t):
    c0 = c[q]
    for j in range(t.size):
        t[j] += c0 * kernel[i, j]


@compiled
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


@compiled
def iterate(kernel, a, b, u, v, state, errors, tolerance, most, widest):
    """Sweep until converged, or until a scaling leaves [1/widest, widest].

    Arguments:
        kernel: K (n, m), in single or double precision.
        a: Row probabilities (n,), in double precision, as all vectors.
        b: Column probabilities (m,).
        u: Row scalings (n,), updated.
        v: Column scalings (m,), updated.
        state: ω, iterations done, iteration of ω's last change, whether columns are exact, what
            error to end over-relaxation at, largest ω; updated.
        errors: Row marginal's error (most + 1,) before each iteration, updated.
        tolerance: Error to stop at.
        most: Iterations to stop at.
        widest: Limit of the scalings.
    """
    n, m = kernel.shape
    w, t = np.empty(m, kernel.dtype), np.empty(m, kernel.dtype)
    sums, coefficients = np.empty(_ROWS, kernel.dtype), np.empty(_ROWS, kernel.dtype)
    longest = max(m, _ROWS)
    fitted, scratch, rounded = np.empty(longest), np.empty(longest), np.empty(longest)
    omega, done, changed, exact = state[0], int(state[1]), int(state[2]), state[3] > 0
    target, largest = state[4], state[5]
    outcome = -1
    while outcome < 0:
        if done == most - 1:
            omega = 1.0
        for j in range(m):
            w[j] = b[j] * v[j]
            t[j] = 0
        error, inside, broken = 0.0, True, False
        for start in range(0, n, _ROWS):
            rows = min(_ROWS, n - start)
            fours = rows // 4 * 4
            for q in range(0, fours, 4):
                _dot4(kernel, start + q, w, sums, q)
            for q in range(fours, rows):
                _dot1(kernel, start + q, w, sums, q)
            for q in range(rows):
                fitted[q] = 1.0 / np.float64(sums[q]) if sums[q] > 0 else np.inf
                broken |= not 0.0 < fitted[q] < np.inf
                error += a[start + q] * abs(u[start + q] * np.float64(sums[q]) - 1.0)
            if omega == 1.0:
                # Assigning slices would compile its error message: a second.
                for q in range(rows):
                    u[start + q] = fitted[q]
            else:
                move(u[start : start + rows], fitted, omega, rows, scratch, rounded)
            for q in range(rows):
                x = u[start + q]
                inside &= (x < widest) & (x * widest > 1.0)
                coefficients[q] = a[start + q] * x
            for q in range(0, fours, 4):
                _add4(kernel, start + q, coefficients, q, t)
            for q in range(fours, rows):
                _add1(kernel, start + q, coefficients, q, t)
        column_error = 0.0
        for j in range(m):
            fitted[j] = 1.0 / np.float64(t[j]) if t[j] > 0 else np.inf
            column_error += b[j] * abs(v[j] * np.float64(t[j]) - 1.0)
            broken |= not 0.0 < fitted[j] < np.inf
        if omega == 1.0:
            for j in range(m):
                v[j] = fitted[j]
        else:
            move(v, fitted, omega, m, scratch, rounded)
        broken |= not error < np.inf
        for j in range(m):
            inside &= (v[j] < widest) & (v[j] * widest > 1.0)
        done += 1
        errors[done] = error
        plain = omega == 1.0
        if broken:
            outcome = BROKEN
        elif error <= tolerance and plain and exact:
            outcome = CONVERGED
        elif done >= most:
            outcome = EXHAUSTED
        elif not inside:
            outcome = ABSORB
        # What over-relaxation leaves in the columns goes to the rows with the plain steps that end it.
        if exact and plain and error > tolerance and errors[done - 2] <= target:
            target *= 0.5
        exact = plain
        if max(error, 0.0 if plain else column_error) <= target:
            omega = 1.0
        else:
            omega, changed = next_omega(omega, errors, done, changed)
            omega = min(omega, largest)
    state[0], state[1], state[2], state[3], state[4] = omega, done, changed, exact, target
    return outcome


@compiled_reordering
def write_plan(kernel, a, b, u, v):
    """Turn K into the plan a u K b v; returns the rows' and the columns' marginal errors."""
    n, m = kernel.shape
    w, columns = np.empty(m, kernel.dtype), np.zeros(m)
    for j in range(m):
        w[j] = b[j] * v[j]
    error = 0.0
    for i in range(n):
        c = kernel.dtype.type(a[i] * u[i])
        total = 0.0
        for j in range(m):
            kernel[i, j] *= c * w[j]
        for j in range(m):
            columns[j] += kernel[i, j]
            total += kernel[i, j]
        error += abs(total - a[i])
    other = 0.0
    for j in range(m):
        other += abs(columns[j] - b[j])
    return error, other
