r"""Discrete Laplace noise, drawn exactly: $P(k) ∝ e^{−|k|/t}$ on the integers, $t$ = scale/grid.

**Why it is right.** For a real uniform $|U|$, $G = ⌊−t \ln |U|⌋$ has $P(G ≥ k) = P(|U| ≤ e^{−k/t})
= e^{−k/t}$: geometric. The sign of $U$, with −0 drawn again, gives $P(±k) ∝ ½ (1 − e^{−1/t})
e^{−k/t}$ and, at 0, the same formula: the discrete Laplace law. $G$ is the integer nearest to
$h = −t \ln |U| − ½$, which `exact_rounding` decides for full real $U$: pure ε survives.

**Why floats do no harm.** For $|U| ≥ 2^{−19}$, $t \ln |U|$ in float64 at the cell's middle differs
from the truth anywhere in the cell by at most $t$ times: $2^{−45}$ (bits not drawn), $2^{−52}$ (the
middle's two roundings), $4 · 2^{−49}$ (4 ulp of a logarithm below 16, checked at import) and
$2^{−49}$ (the product): below $t · 2^{−44}$, while $t · 2^{−39}$ is allowed. Taking off ½ is exact from
¼ on, and below ¼ the nearest integer is 0 with or without its rounding.

**Who sees what.** The time of a draw depends on the noise and on the public ratio, never on a record.

References:
    Ghosh, Roughgarden, Sundararajan, *Universally utility-maximizing privacy mechanisms* (2012);
    Mironov, *On significance of the least significant bits for differential privacy* (2012).
"""

from __future__ import annotations

from decimal import ROUND_FLOOR, Context, Decimal

import numpy as np

from privot.mechanisms.samplers.entropy import random_words, upcoming
from privot.mechanisms.samplers.rounding import (
    Floats,
    Integers,
    Size,
    middles,
    negative_log,
    sample,
    settle,
)

_UNIFORM_MIN = 2.0**-19
_NEGATIVE_ZERO = np.iinfo(np.int64).min  # bits of the float −0.0


def enclose(prefixes: list[int], bits: int, ratio: Decimal, context: Context) -> list[Decimal]:
    """A bound of h in the cell, as `context` rounds: h falls with |U|; infinite for prefix 0."""
    edge = prefixes[0] + (context.rounding == ROUND_FLOOR)
    value = context.multiply(ratio, negative_log(edge, bits, context))
    return [context.subtract(value, Decimal("0.5"))]


def _draw(count: int, ratio: float) -> Floats:
    words = random_words(count).view(np.int64).reshape(1, count)
    value = middles(words)
    np.abs(value, out=value)
    value[value < _UNIFORM_MIN] = np.nan
    np.log(value, out=value)
    value *= -ratio
    value -= 0.5
    noise = settle(words, value, ratio, enclose)[0]
    kept = noise.view(np.int64) != _NEGATIVE_ZERO
    return noise if kept.all() else noise[kept]


def sample_discrete_laplace(size: Size, ratio: float) -> Integers:
    r"""Independent integers of law $P(k) ∝ e^{−|k|/\text{ratio}}$, exactly; int64 of shape `size`.

    Fast up to ratio $2^{26}$; beyond, more and more draws take the exact path. Raises `PrivotError`
    for a ratio outside $(0, 2^{40}]$.

    Examples:
        >>> noise = sample_discrete_laplace((2, 3), ratio=100.0)
        >>> noise.shape, noise.dtype
        ((2, 3), dtype('int64'))
    """
    return sample(size, ratio, _draw)


def draw_discrete_laplace(count: int, ratio: float) -> list[int]:
    """As `sample_discrete_laplace`, for single records: a list, from noise drawn ahead."""
    return upcoming(count, sample_discrete_laplace, ratio)
