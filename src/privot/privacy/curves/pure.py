"""The arithmetic of noise that promises ε alone: Laplace noise, and k-ary randomized response.

**Laplace.** y = x + s with s_j independent, density ∝ e^(−|s|/b). For two inputs x, x′ the likelihood
ratio at any y is e^((‖y−x′‖₁ − ‖y−x‖₁)/b) ≤ e^(‖x−x′‖₁/b), attained for y beyond x. So the mechanism
is ε-DP exactly for ε = Δ/b, where the sensitivity Δ is the largest ‖x−x′‖₁ between neighbors:
for local privacy the **diameter** of the domain (a ball of radius r has 2r), rounding to the
grid included. The same holds word for word for discrete Laplace noise on a grid
(Dwork, McSherry, Nissim, Smith 2006; Ghosh, Roughgarden, Sundararajan 2009).

**Randomized response.** With probability p the true category is reported, otherwise one of the other
k−1, uniformly. P(y | x=y) = p and P(y | x≠y) = (1−p)/(k−1): for any two records and any report the
likelihood ratio is p(k−1)/(1−p), its inverse, or 1. So the mechanism is ε-DP exactly for
ε = |log(p(k−1)/(1−p))|, and p = e^ε/(e^ε + k − 1) spends ε (Warner 1965; Kairouz, Oh,
Viswanath 2014). Neighbors are any two values of one person's record.

Everything is rounded to the safe side (scale up, p down, ε up) in exact rational arithmetic; the ratio
of a float p is rational, and logarithms are taken in 50-digit decimals.
"""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

from privot.errors import PrivotError, require_count
from privot.privacy.rounding import divide_up, require_finite, round_up

_DIGITS = 50


def calibrate_laplace(sensitivity: float, epsilon: float) -> float:
    """Return the smallest float scale b with Δ/b ≤ ε, in the data's units.

    >>> calibrate_laplace(sensitivity=2.0, epsilon=4.0)
    0.5

    Raises:
        PrivotError: if sensitivity or epsilon is not finite and positive.
    """
    require_finite("sensitivity", sensitivity, positive=True)
    require_finite("epsilon", epsilon, positive=True)
    scale = divide_up(sensitivity, epsilon)
    require_finite("the scale sensitivity/epsilon", scale, positive=True)
    return scale


def laplace_epsilon(scale: float, sensitivity: float) -> float:
    """Return the smallest float ε with Δ/b ≤ ε.

    >>> laplace_epsilon(scale=0.5, sensitivity=2.0)
    4.0

    Raises:
        PrivotError: if scale is not finite and positive, or sensitivity not finite and ≥ 0.
    """
    require_finite("scale", scale, positive=True)
    require_finite("sensitivity", sensitivity)
    return divide_up(sensitivity, scale)


def calibrate_randomized_response(num_categories: int, epsilon: float) -> float:
    """Return the largest float keep probability p ≥ 1/k whose guarantee is at most ε.

    >>> round(calibrate_randomized_response(num_categories=2, epsilon=1.0), 4)
    0.7311

    Raises:
        PrivotError: if num_categories < 2, or epsilon is not finite and ≥ 0.
    """
    num_categories = _require_categories(num_categories)
    require_finite("epsilon", epsilon)
    with localcontext() as context:
        context.prec = _DIGITS
        others = Decimal(num_categories - 1) * (-Decimal(epsilon)).exp()
        keep = min(float(1 / (1 + others)), math.nextafter(1.0, 0.0))
    # To nearest, the float may be one step too large: step down until it provably is not.
    while keep * num_categories > 1 and randomized_response_epsilon(keep, num_categories) > epsilon:
        keep = math.nextafter(keep, 0.0)
    return keep


def randomized_response_epsilon(keep_probability: float, num_categories: int) -> float:
    """Return ε = |log(p(k−1)/(1−p))|, rounded up by at most one unit in the last place.

    >>> round(randomized_response_epsilon(keep_probability=0.75, num_categories=2), 4)
    1.0986

    Raises:
        PrivotError: if num_categories < 2, or the probability is not strictly inside (0, 1).
    """
    num_categories = _require_categories(num_categories)
    if not 0 < keep_probability < 1:
        raise PrivotError(
            f"keep_probability is {keep_probability!r}: give a number strictly between 0 and 1, "
            "for at 0 and at 1 some report rules a record out"
        )
    keep = Fraction(keep_probability)
    ratio = keep * (num_categories - 1) / (1 - keep)
    ratio = max(ratio, 1 / ratio)
    with localcontext() as context:
        context.prec = _DIGITS
        logarithm = (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln()
    return round_up(Fraction(logarithm))


def _require_categories(num_categories: int) -> int:
    return require_count("categories", num_categories, 2**53, least=2)
