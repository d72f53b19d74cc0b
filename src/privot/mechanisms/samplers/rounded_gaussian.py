r"""Rounded Gaussian noise, drawn exactly: $k = ⌊tZ + ½⌋$ with $Z ∼ N(0, 1)$, $t$ = stddev/grid.

**Why it is right.** Marsaglia's polar method: for real $U, V$ uniform on $(−1, 1)$, given that $S =
U^2 + V^2 < 1$, the two numbers $U f, V f$ with $f = \sqrt{−2 \ln S / S}$ are independent standard
Gaussians. Rounding one to the grid is post-processing of the continuous Gaussian mechanism, so
every bound for that mechanism holds as it stands (the discrete Gaussian would need its own). The
magnitudes $t |U| f, t |V| f$, and ∞ where $S ≥ 1$, go to `exact_rounding`, **the pair at once**:
acceptance and both roundings come from the same real $U$ and $V$, so they stay independent.

**Why floats do no harm.** Let $η = 2^{−53}$. For $S ≥ 2^{−20}$, float64 gives $S$ to the relative
error $6η + 2^{−52.5} < 2^{−50}$ ($U$ and $V$ to $2η$ each and $2^{−64}$ for bits not drawn, a
rounding for each square and the sum). With $R = \sqrt{−2 \ln S}$, the error of $Z = U f$ is at most
$2^{−50}/R$ (from $\ln S$) plus $14 η R$ (4 from $S$ in the quotient; 4 ulp of the logarithm, checked
at import, halved by the root: 4; quotient, root and two products: 3.5; and $U$: 2), plus $2^{−64}
f$. For $2^{−20} ≤ S ≤ 1 − 2^{−20}$, $2^{−9.5} ≤ R < 5.3$ and $f ≤ 2^{12.4}$, so this is below
$2^{−40.4}$, while $2^{−39}$ is allowed. Outside these limits floats decide nothing, except that for
$S > 1 + 2^{−40}$ they reject: there $S ≥ 1$ whatever bits follow.

References:
    Marsaglia, Bray, *A convenient method for generating normal variables* (1964).
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal

import numpy as np

from privot.mechanisms.samplers.entropy import random_words, upcoming
from privot.mechanisms.samplers.exact_rounding import (
    Floats,
    Integers,
    Size,
    dyadic,
    middles,
    negative_log,
    outward,
    sample,
    settle,
)

_SQUARE_MIN = 2.0**-20
_SQUARE_MAX = 1.0 - 2.0**-20
_SQUARE_REJECT = 1.0 + 2.0**-40


def enclose(prefixes: list[int], bits: int, ratio: Decimal, context: Context) -> list[Decimal]:
    """Bounds of t|U|f and t|V|f in the cell, as `context` rounds; infinite where S ≥ 1."""
    up = context.rounding == ROUND_CEILING
    edges = [prefix + up for prefix in prefixes]
    if sum(edge**2 for edge in edges) >= 4**bits:
        return [Decimal("Infinity")] * 2
    # The factor falls with S: the largest S gives its lower bound.
    square = sum((prefix + 1 - up) ** 2 for prefix in prefixes)
    twice = context.multiply(Decimal(2), negative_log(square, 2 * bits, context))
    root = context.sqrt(context.divide(twice, dyadic(square, 2 * bits)))  # rounded to nearest
    factor = context.multiply(ratio, outward(root, context))
    return [context.multiply(factor, dyadic(edge, bits)) for edge in edges]


def _draw(count: int, ratio: float) -> Floats:
    words = random_words(2 * (5 * count // 8 + 8)).view(np.int64).reshape(2, -1)  # 4 of 5 are kept
    value = middles(words)
    square = np.square(value[0])
    square += np.square(value[1])
    kept = np.flatnonzero(square <= _SQUARE_REJECT)
    words, value, square = words.take(kept, 1), value.take(kept, 1), square[kept]
    square[(square < _SQUARE_MIN) | (square > _SQUARE_MAX)] = np.nan
    value *= np.sqrt(np.log(square) * -2.0 / square) * ratio
    np.abs(value, out=value)
    noise = settle(words, value, ratio, enclose)
    accepted = np.isfinite(noise[0])
    return (noise if accepted.all() else noise[:, accepted]).ravel()


def sample_rounded_gaussian(size: Size, ratio: float) -> Integers:
    r"""Independent integers $⌊\text{ratio}·Z + ½⌋$, $Z ∼ N(0,1)$, exactly; int64 of shape `size`.

    Fast up to ratio $2^{26}$; beyond, more and more draws take the exact path. Raises `PrivotError`
    for a ratio outside $(0, 2^{40}]$.

    Examples:
        >>> noise = sample_rounded_gaussian(3, ratio=100.0)
        >>> noise.shape, noise.dtype
        ((3,), dtype('int64'))
    """
    return sample(size, ratio, _draw)


def draw_rounded_gaussian(count: int, ratio: float) -> list[int]:
    """As `sample_rounded_gaussian`, for single records: a list, from noise drawn ahead."""
    return upcoming(count, sample_rounded_gaussian, ratio)
