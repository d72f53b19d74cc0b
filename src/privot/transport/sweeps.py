r"""Compiled loops of Sinkhorn's algorithm on the CPU: kernel, fused sweeps, over-relaxation, plan.

`privot.transport.sinkhorn` calls these loops.

**Kernel.** The potentials f, g and the costs C give $K_{ij} = e^{(f_i + g_j − C_{ij})/λ}$. Exponents are
computed in double precision, in which costs much larger than λ do not cancel, for any precision of K.
The exponential 2^z is a polynomial in the fraction of z, in [−½, ½], times a power of two that is added
to the exponent's bits. The compiler vectorizes this; the library's exp takes as long as 50 sweeps.

**Sweep.** With a and b the marginals, and u and v the scalings of rows and columns, one iteration is
$s = K(bv)$, $u = 1/s$, $t = K^⊤(au)$, $v = 1/t$. It reads K once: row i gives $s_i$ and $u_i$, and is
still in the cache when $a_i u_i K_{i·}$ is added to t. The row marginal's error before the step is
$\sum_i a_i |u_i s_i - 1|$. Sums over K have its precision.

**Over-relaxation.** In logarithms, a plain step goes from $\log u$ to $-\log s$. A relaxed step goes ω
times as far, 1 ≤ ω < 2. Near the solution, a plain iteration multiplies the error by a factor $ρ = μ^2$.
An iteration with ω = 2/(1 + √(1 − ρ)) multiplies it by ω − 1, which is much less for ρ near 1 (Young).
The errors of three plain steps estimate ρ. Later, if a step multiplies errors by r > ω − 1, Young's
relation $(r + ω - 1)^2 = ω^2 μ^2 r$ gives a better μ². If errors grow, some plain steps follow, which
cannot diverge.

The last step must be plain, so that columns are exact. So steps are plain as soon as the errors of the
two marginals are within a target, which is the tolerance at first. A plain step moves the columns' error
to the rows. If the rows' error then exceeds the tolerance, over-relaxation goes on, to half the target.

References:
    Schmitzer, *Stabilized sparse scaling algorithms* (2019). Thibault, Chizat, Dossal, Papadakis,
    *Overrelaxed Sinkhorn–Knopp algorithm for regularized optimal transport* (2021). Lehmann, von
    Renesse, Sambale, Uschmajew, *A note on overrelaxation in the Sinkhorn algorithm* (2022). Young,
    *Iterative methods for solving partial difference equations of elliptic type* (1954).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privot.core.compiled import (
    compiled,
    compiled_part,
    compiled_reordering,
    compiled_reordering_part,
)

# mypy: allow-untyped-defs

# Smaller entries are negligible for scalings within e^±20, and would slow sweeps 9× as denormals.
NEGLIGIBLE = 1e-30
_LN2, _LOG2E = math.log(2.0), math.log2(math.e)
# Adding this puts the integer nearest to a number into the low bits of a double.
_ROUND = 6755399441055744.0


@compiled_part
def exp2(z, rounded, count):
    """Replace `count` entries of z by 2^z, to a relative 1e-15; `rounded` is for intermediate values."""
    for j in range(count):
        z[j] = min(max(z[j], -1000.0), 1000.0)
        rounded[j] = z[j] + _ROUND
    bits, powers = rounded.view(np.int64), z.view(np.int64)
    for j in range(count):
        x = (z[j] - (rounded[j] - _ROUND)) * _LN2  # 2^fraction is e^x: Taylor's series to x^13
        p = (1 / 6227020800 * x + 1 / 479001600) * x + 1 / 39916800
        p = (((p * x + 1 / 3628800) * x + 1 / 362880) * x + 1 / 40320) * x + 1 / 5040
        p = ((((p * x + 1 / 720) * x + 1 / 120) * x + 1 / 24) * x + 1 / 6) * x + 0.5
        z[j] = (p * x + 1.0) * x + 1.0
    for j in range(count):
        powers[j] += bits[j] << 52


@compiled_reordering_part
def _all_finite(row):
    """Return whether all entries are finite, without branches: 0·x is NaN if x is not finite."""
    total = 0.0
    for j in range(row.size):
        total += 0.0 * row[j]
    return total == 0.0


@compiled_part
def _lowest(row):
    """Return the minimum by vectorized halving, which overwrites the row."""
    count = row.size
    while count > 1:
        half = (count + 1) // 2
        for j in range(count - half):
            row[j] = min(row[j], row[j + half])
        count = half
    return row[0]


@compiled
def shift(cost, f, g):
    """Write the row minima f of C, and the column minima g of C − f; return whether C is finite."""
    n, m = cost.shape
    row = np.empty(m)
    g[:] = np.inf
    finite = True
    for i in range(n):
        for j in range(m):
            row[j] = cost[i, j]
        finite &= _all_finite(row)
        f[i] = _lowest(row)
        for j in range(m):
            g[j] = min(g[j], cost[i, j] - f[i])
    return finite


@compiled
def build(cost, f, g, reg, kernel):
    """Write K_ij = exp((f_i + g_j − C_ij)/λ), with negligible entries set to 0."""
    n, m = cost.shape
    row, rounded = np.empty(m), np.empty(m)
    scale = _LOG2E / reg
    for i in range(n):
        fi = f[i]
        for j in range(m):
            row[j] = ((fi - cost[i, j]) + g[j]) * scale
        exp2(row, rounded, m)
        for j in range(m):
            kernel[i, j] = row[j] if row[j] > NEGLIGIBLE else 0.0


# Heuristic settings of `next_omega`, which affect the number of steps but not the solution.
_PLAIN_STEPS = 3  # plain steps before ρ is estimated
_PATIENCE = 5  # fewest steps with one ω before it is judged
_WINDOW = 3  # fewest steps over which the reduction of the errors is measured
_MAX_OMEGA = 1.995  # from 2 on, relaxed steps diverge
_GROWN = 3.0  # growth of the error above which a judged ω is abandoned
_EXPLODED = 30.0  # growth of the error above which ω is abandoned at once


@compiled_part
def _best_omega(contraction):
    """Return the best ω ≤ 1.995 if plain steps multiply the error by ρ = `contraction` < 1."""
    return min(_MAX_OMEGA, 2 / (1 + math.sqrt(1 - contraction)))


@compiled_part
def next_omega(omega, errors, now, changed):
    """Return the next ω, and the iteration at which an ω was last set or judged.

    An ω > 1 is judged after max(5, 1/(2 − ω)) steps by the errors since. If they have grown, plain steps
    follow. If they have not shrunk, ω − 1 is reduced by a tenth. If a step multiplied them by r > ω − 1,
    ω rises to the best one by Young's relation.

    `errors` are the row marginal's errors before each iteration, up to index `now`; `changed` is the
    iteration at which `omega` was set or last judged.
    """
    watched = now - changed
    if omega == 1.0:
        if watched >= _PLAIN_STEPS and now >= 3 and errors[now] < errors[now - 2]:
            return _best_omega(math.sqrt(errors[now] / errors[now - 2])), now
        return 1.0, changed
    if errors[now] > _EXPLODED * errors[changed]:
        return 1.0, now
    # An ω near 2 takes about 1/(2 − ω) steps to show its rate; errors may grow in proportion meanwhile.
    if watched < _PATIENCE or watched < 1 / (2 - omega):
        return omega, changed
    if errors[now] > max(_GROWN, 0.5 / (2 - omega)) * errors[changed]:
        return 1.0, now
    window = max(_WINDOW, watched // 2)
    shrinking = (errors[now] / errors[now - window]) ** (1 / window)
    if shrinking >= 1 and errors[now] > errors[changed]:
        return 1 + 0.9 * (omega - 1), now
    if omega - 1 < shrinking < 1:
        contraction = (shrinking + omega - 1) ** 2 / (omega * omega * shrinking)
        if contraction < 1:
            return max(omega, _best_omega(contraction)), now
    return omega, now


_SQRT2 = math.sqrt(2.0)
_ONE_BITS, _MANTISSA = 0x3FF0000000000000, 0x000FFFFFFFFFFFFF  # of the double 1.0; of all mantissas


@compiled_part
def move(x, towards, omega, count, scratch, rounded):
    """Replace `count` entries of x > 0 by x·(towards/x)^ω.

    The error of the logarithm is a millionth of ω. The binary logarithm of 2^k·m, 1 ≤ m < 2, is k plus
    a series of the inverse hyperbolic tangent. `scratch` and `rounded` are for intermediate results.
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


# Outcomes of an iteration; ABSORB says that scalings left their limits (see `sinkhorn`).
CONTINUE, CONVERGED, ABSORB, EXHAUSTED, BROKEN = range(-1, 4)

# Indices of the numbers in `IterationControl.state`.
OMEGA, DONE, CHANGED, WAS_PLAIN, TARGET, LARGEST = range(6)

# Sweeps process four rows together, and update scalings in blocks of sixteen rows.
FEWEST_ROWS = 4
_ROWS = 16


class Factors(NamedTuple):
    """Factors of the plan a u K b v, all but K in double precision.

    Arguments:
        kernel: K (n, m), in single or double precision.
        a: Row probabilities (n,).
        b: Column probabilities (m,).
        u: Row scalings (n,), updated.
        v: Column scalings (m,), updated.
    """

    kernel: NDArray[np.floating]
    a: NDArray[np.float64]
    b: NDArray[np.float64]
    u: NDArray[np.float64]
    v: NDArray[np.float64]


class IterationControl(NamedTuple):
    """State and limits of the iterations.

    Arguments:
        state: Six numbers, updated: ω (at index OMEGA), number of iterations (DONE), iteration at which
            ω was set or judged (CHANGED), 1 if the last step was plain, so columns are exact, else 0
            (WAS_PLAIN), error that ends over-relaxation (TARGET), largest ω (LARGEST).
        errors: Row marginal's error (max_iterations + 1,) before each iteration, updated.
        tolerance: Error at which iterations stop.
        max_iterations: Number of iterations after which they stop.
        limit: Limit of scalings, which must be in [1/limit, limit].
    """

    state: NDArray[np.float64]
    errors: NDArray[np.float64]
    tolerance: float
    max_iterations: int
    limit: float

    @classmethod
    def begin(cls, tolerance, max_iterations, limit):
        """Return the control before the first iteration, whose step is plain; ω is at most 2."""
        state = np.zeros(6)
        state[OMEGA], state[TARGET], state[LARGEST] = 1.0, tolerance, 2.0
        return cls(state, np.full(max_iterations + 1, np.inf), tolerance, max_iterations, limit)


class Update(NamedTuple):
    """Result of an update of row or column scalings."""

    error: float  # error of the rows' or columns' marginal before the update
    inside: bool  # whether all scalings are within the limits
    broken: bool  # whether a scaling overflowed


@compiled_reordering_part
def _dot4(kernel, i, w, out, q):
    """Write the products of rows i … i + 3 of the kernel with w to out[q … q + 3]."""
    s0 = s1 = s2 = s3 = w.dtype.type(0)
    for j in range(w.size):
        factor = w[j]
        s0 += kernel[i, j] * factor
        s1 += kernel[i + 1, j] * factor
        s2 += kernel[i + 2, j] * factor
        s3 += kernel[i + 3, j] * factor
    out[q], out[q + 1], out[q + 2], out[q + 3] = s0, s1, s2, s3


@compiled_reordering_part
def _add4(kernel, i, c, q, t):
    """Add rows i … i + 3 of the kernel, times c[q … q + 3], to t."""
    c0, c1, c2, c3 = c[q], c[q + 1], c[q + 2], c[q + 3]
    for j in range(t.size):
        t[j] += (c0 * kernel[i, j] + c1 * kernel[i + 1, j]) + (
            c2 * kernel[i + 2, j] + c3 * kernel[i + 3, j]
        )


@compiled
def sweep(kernel, a, w, u, t, omega, limit):
    """Update the scalings u of rows (r, m), r ≥ 4, with ω, and add K^⊤(au) to t; `w` is b·v."""
    n = kernel.shape[0]
    sums, coefficients = np.empty(_ROWS, kernel.dtype), np.empty(_ROWS, kernel.dtype)
    fitted, before = np.empty(_ROWS), np.empty(_ROWS)
    scratch, rounded = np.empty(_ROWS), np.empty(_ROWS)
    error, inside, broken = 0.0, True, False
    for start in range(0, n, _ROWS):
        # The last block begins with `done` rows of the block before, to have a multiple of four rows.
        end = min(start + _ROWS, n)
        first = end - (end - start + 3) // 4 * 4
        done, rows = start - first, end - start
        for q in range(0, rows + done, 4):
            _dot4(kernel, first + q, w, sums, q)
        for q in range(rows):
            s = np.float64(sums[done + q])
            fitted[q] = 1.0 / s if s > 0 else np.inf
            broken |= not 0.0 < fitted[q] < np.inf
            error += a[start + q] * abs(u[start + q] * s - 1.0)
        if omega != 1.0:
            for q in range(rows):
                before[q] = u[start + q]
            move(before, fitted, omega, rows, scratch, rounded)
        for q in range(done):
            coefficients[q] = 0
        for q in range(rows):
            scaling = fitted[q] if omega == 1.0 else before[q]
            inside &= (scaling < limit) & (scaling * limit > 1.0)
            u[start + q] = scaling
            coefficients[done + q] = a[start + q] * scaling
        for q in range(0, rows + done, 4):
            _add4(kernel, first + q, coefficients, q, t)
    return Update(error, inside, broken)


@compiled
def begin(b, v, w, t, control):
    """Begin an iteration with w = b·v and t = 0; return ω, which is 1 in the last iteration."""
    if control.state[DONE] == control.max_iterations - 1:
        control.state[OMEGA] = 1.0
    for j in range(v.size):
        w[j] = b[j] * v[j]
        t[j] = 0
    return control.state[OMEGA]


@compiled_part
def _update_columns(b, v, t, omega, limit):
    """Move the column scalings v towards 1/t, ω times as far as the plain step."""
    m = v.size
    fitted, scratch, rounded = np.empty(m), np.empty(m), np.empty(m)
    error, inside, broken = 0.0, True, False
    for j in range(m):
        fitted[j] = 1.0 / np.float64(t[j]) if t[j] > 0 else np.inf
        error += b[j] * abs(v[j] * np.float64(t[j]) - 1.0)
        broken |= not 0.0 < fitted[j] < np.inf
    if omega == 1.0:
        for j in range(m):
            v[j] = fitted[j]
    else:
        move(v, fitted, omega, m, scratch, rounded)
    for j in range(m):
        inside &= (v[j] < limit) & (v[j] * limit > 1.0)
    return Update(error, inside, broken)


@compiled
def finish(b, v, t, rows, control):
    """Update the column scalings by t, record the result of the rows, set ω; return the outcome."""
    state, errors, tolerance, max_iterations, limit = control
    omega, plain, was_plain = state[OMEGA], state[OMEGA] == 1.0, state[WAS_PLAIN] > 0
    columns = _update_columns(b, v, t, omega, limit)
    done = int(state[DONE]) + 1
    errors[done] = rows.error
    outcome = CONTINUE
    if rows.broken or columns.broken or not rows.error < np.inf:
        outcome = BROKEN
    elif rows.error <= tolerance and plain and was_plain:
        outcome = CONVERGED
    elif done >= max_iterations:
        outcome = EXHAUSTED
    elif not (rows.inside and columns.inside):
        outcome = ABSORB
    # Over-relaxation ended two steps ago, and the plain step after it increased the rows' error.
    if plain and was_plain and rows.error > tolerance and errors[done - 2] <= state[TARGET]:
        state[TARGET] *= 0.5
    if rows.error <= state[TARGET] and (plain or columns.error <= state[TARGET]):
        state[OMEGA] = 1.0
    else:
        omega, state[CHANGED] = next_omega(omega, errors, done, int(state[CHANGED]))
        state[OMEGA] = min(omega, state[LARGEST])
    state[DONE], state[WAS_PLAIN] = done, plain
    return outcome


@compiled
def iterate(factors, control):
    """Iterate until the outcome is not CONTINUE, and return it."""
    kernel, a, b, u, v = factors
    w, t = np.empty(v.size, kernel.dtype), np.empty(v.size, kernel.dtype)
    outcome = CONTINUE
    while outcome == CONTINUE:
        omega = begin(b, v, w, t, control)
        outcome = finish(b, v, t, sweep(kernel, a, w, u, t, omega, control.limit), control)
    return outcome


@compiled_reordering
def write_plan(factors, columns):
    """Replace K by the plan a u K b v, add its rows to `columns` (m,), return the rows' error."""
    kernel, a, b, u, v = factors
    n, m = kernel.shape
    w = np.empty(m, kernel.dtype)
    for j in range(m):
        w[j] = b[j] * v[j]
    error = 0.0
    for i in range(n):
        row_factor = kernel.dtype.type(a[i] * u[i])
        total = 0.0
        for j in range(m):
            kernel[i, j] *= row_factor * w[j]
        for j in range(m):
            columns[j] += kernel[i, j]
            total += kernel[i, j]
        error += abs(total - a[i])
    return error
