"""Noise scale from (ε, δ), and (ε, δ) from noise scale: Gaussian, Laplace, randomized response.

**Gaussian.** Let y = x + N(0, σ²I). For two inputs at ℓ2 distance Δ, with Φ the normal distribution
function, the smallest δ at a given ε is (Balle, Wang 2018, Theorem 8)

    δ(ε) = Φ(Δ/2σ − εσ/Δ) − e^ε Φ(−Δ/2σ − εσ/Δ).

It increases in Δ, so the worst case is the largest ℓ2 distance between neighbors. For local privacy this
is the **diameter** of the domain (2r for a ball of radius r), after rounding of the records to the grid.
Rounding of the noised value to a public grid is post-processing and changes nothing.

**Stable evaluation.** Put m = Δ/σ and u = ε/m − m/2. Because e^ε φ(u+m) = φ(u), with the normal density
φ,

    δ = φ(u) (R(u) − R(u+m)) = φ(u) ∫_u^{u+m} (1 − x R(x)) dx,   R(x) = Φ(−x)/φ(x) (Mills' ratio),

so e^ε and tiny δ appear as logarithms only. Where the difference would cancel (m < ½), the integral is
computed, by Gauss–Legendre quadrature. A bound on the relative rounding error, of about 1e-13, is added,
so that every result errs on the safe side: δ, ε and σ are rounded up.

**Laplace.** Let y = x + s with independent s_j of density ∝ e^(−|s|/b). For two inputs x, x′ the
likelihood ratio at any y is e^((‖y−x′‖₁ − ‖y−x‖₁)/b) ≤ e^(‖x−x′‖₁/b), with equality for y beyond x. So
the least ε is Δ/b, where Δ is the largest ‖x−x′‖₁ between neighbors, which for local privacy is the
diameter of the domain. The same holds for discrete Laplace noise on a grid (Dwork, McSherry, Nissim,
Smith 2006; Ghosh, Roughgarden, Sundararajan 2009).

**Randomized response.** The true category is reported with probability p, else one of the other k−1,
uniformly. As P(y | x=y) = p and P(y | x≠y) = (1−p)/(k−1), the likelihood ratio of two records is
p(k−1)/(1−p), its inverse, or 1. So the least ε is |log(p(k−1)/(1−p))|, which p = e^ε/(e^ε + k − 1)
attains (Warner 1965; Kairouz, Oh, Viswanath 2014).

Scales and ε are rounded up, and p down, in exact rational arithmetic, with logarithms of 50 digits.
"""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

from privot.core.errors import PrivotError, require_count, require_finite
from privot.privacy.rounding import bracket, divide_up, require_delta, round_up

_MOST_EPSILON, _MOST_RATIO = 1e6, 1e100  # far above any useful guarantee, and still accurate
_DIGITS = 50  # decimal digits of logarithms
_UNIT = 2.0**-52  # relative distance of neighboring floats, the unit of bounds on rounding errors
_LOG_SQRT_TWO_PI = 0.5 * math.log(2 * math.pi)
# Positive nodes, whose negatives are nodes, too, and weights of the ten-point Gauss–Legendre rule on
# [−1, 1], whose error is below 1e-20 for the integrand over m < ½.
_NODES_AND_WEIGHTS = (
    (0.1488743389816312, 0.2955242247147529),
    (0.4333953941292472, 0.2692667193099964),
    (0.6794095682990244, 0.2190863625159820),
    (0.8650633666889845, 0.1494513491505806),
    (0.9739065285171717, 0.0666713443086881),
)


def _require_epsilon(epsilon: float) -> None:
    require_finite("epsilon", epsilon)
    if epsilon > _MOST_EPSILON:
        raise PrivotError(f"epsilon is {epsilon!r}: give at most {_MOST_EPSILON:g}")


def _distance(sensitivity: float, stddev: float, epsilon: float = 0.0) -> float:
    """Return m = Δ/σ, rounded up, but at least ε/10⁵, so that u = ε/m − m/2 does not overflow.

    A larger m is safe, because δ grows with m. At m = ε/10⁵, δ is below e^(−10⁹).
    """
    m = divide_up(sensitivity, stddev)
    if m > _MOST_RATIO:
        raise PrivotError(
            f"sensitivity {sensitivity!r} is {m:g} times stddev {stddev!r}: "
            f"give at most {_MOST_RATIO:g} times"
        )
    return max(m, 1e-5 * epsilon)


def gaussian_delta(stddev: float, sensitivity: float, epsilon: float) -> float:
    """Return the smallest δ for which noise of `stddev` σ is (ε, δ)-DP at ℓ2 sensitivity Δ, rounded up.

    >>> round(gaussian_delta(stddev=1.0, sensitivity=1.0, epsilon=1.0), 6)
    0.126937

    Raises:
        PrivotError: if stddev is not positive, or sensitivity or epsilon negative or infinite.
    """
    require_finite("stddev", stddev, positive=True)
    require_finite("sensitivity", sensitivity)
    _require_epsilon(epsilon)
    if sensitivity == 0:
        return 0.0
    log_delta = _log_delta(_distance(sensitivity, stddev, epsilon), epsilon)
    return min(1.0, math.nextafter(math.exp(log_delta) * (1 + 4 * _UNIT), math.inf))


def gaussian_epsilon(stddev: float, sensitivity: float, delta: float) -> float:
    """Return the smallest ε with δ(ε) ≤ δ, up to rounding (1e-9 relative, 1e-15 absolute), rounded up.

    >>> round(gaussian_epsilon(stddev=4.2247, sensitivity=1.0, delta=1e-6), 4)
    1.0

    Raises:
        PrivotError: if stddev is not positive, sensitivity negative, or δ not in (0, 1).
    """
    require_finite("stddev", stddev, positive=True)
    require_finite("sensitivity", sensitivity)
    require_delta(delta, positive=True)
    if sensitivity == 0:
        return 0.0
    m = _distance(sensitivity, stddev)
    # Subtract the rounding errors of this logarithm, and of the exponential in `gaussian_delta`.
    target = math.log(delta) - _UNIT * (8 + 2 * abs(math.log(delta)))
    if _log_delta(m, 0.0) <= target:
        return 0.0
    above = m
    while _log_delta(m, above) > target:
        above *= 2
    # The smallest ε may be within rounding of 0, where no relative tolerance is ever met.
    return bracket(lambda e: _log_delta(m, e) - target, 0.0, above, 1e-13, smallest=1e-15)[1]


def calibrate_gaussian(sensitivity: float, epsilon: float, delta: float) -> float:
    """Return the smallest σ that is (ε, δ)-DP by the exact curve, rounded up by at most 1e-10 of it.

    >>> round(calibrate_gaussian(sensitivity=1.0, epsilon=1.0, delta=1e-6), 5)
    4.22468

    The result is checked with `gaussian_delta` (Balle, Wang 2018).

    Raises:
        PrivotError: if sensitivity is not positive, epsilon negative, or δ not in (0, 1).
    """
    require_finite("sensitivity", sensitivity, positive=True)
    _require_epsilon(epsilon)
    require_delta(delta, positive=True)
    target = math.log(delta)
    # δ(ε) increases with m = Δ/σ. Bracket the largest m that is safe, then narrow the bracket.
    unsafe = 1.0
    while _log_delta(unsafe, epsilon) <= target:
        unsafe *= 2
    safe = unsafe / 2
    while _log_delta(safe, epsilon) > target:
        safe /= 2
    safe = bracket(lambda m: _log_delta(m, epsilon) - target, unsafe, safe, 1e-13)[1]
    stddev = divide_up(sensitivity, safe)
    while gaussian_delta(stddev, sensitivity, epsilon) > delta:
        stddev *= 1 + 1e-13
    return stddev


def calibrate_gaussian_zhao(sensitivity: float, epsilon: float, delta: float) -> float:
    """Return the closed form σ = Δ (c + √(c²+ε))/(ε√2), c² = log(2/(√(16δ+1) − 1)), rounded up.

    This σ is sufficient, but not necessary (Zhao et al. 2019). At δ = 1e-4 it exceeds
    `calibrate_gaussian` by 4 % (ε=35), 13 % (ε=5) and 28 % (ε=1). Papers on entropic optimal transport
    calibrate with it.

    >>> round(calibrate_gaussian_zhao(sensitivity=1.0, epsilon=1.0, delta=1e-6), 3)
    5.084

    Raises:
        PrivotError: if sensitivity or epsilon is not positive, or δ not in (0, ½).
    """
    require_finite("sensitivity", sensitivity, positive=True)
    require_finite("epsilon", epsilon, positive=True)
    if not 0 < delta < 0.5:
        raise PrivotError(f"delta is {delta!r}: the closed form needs 0 < delta < 1/2")
    # √(16δ+1) − 1 = 16δ/(√(16δ+1) + 1), which does not cancel.
    c_squared = math.log((math.sqrt(16 * delta + 1) + 1) / (8 * delta))
    factor = (math.sqrt(c_squared) + math.sqrt(c_squared + epsilon)) / (epsilon * math.sqrt(2))
    return sensitivity * factor * (1 + 32 * _UNIT)


def _log_delta(m: float, epsilon: float) -> float:
    """Return log δ(ε) at Δ/σ = m > 0, plus a bound on its rounding error (see the module for u)."""
    u = epsilon / m - m / 2
    log_density = -u * u / 2 - _LOG_SQRT_TWO_PI
    # The multiples of the unit below exceed the errors of erfc, exp and R, at most about 16 units.
    u_error = _UNIT * (epsilon / m + m)
    error = 32 * _UNIT + 4 * _UNIT * abs(log_density) + (abs(u) + 1) * u_error
    if m < 0.5 and u * m < 1:  # the difference would cancel
        logarithm = log_density + math.log(_mills_decrease(u, m))
        error += 32 * _UNIT * (2 + u) ** 2
    elif u < 0:
        delta = 0.5 * math.erfc(u / math.sqrt(2)) - math.exp(log_density) * _mills(u + m)
        logarithm = math.log(delta)
        error += 64 * _UNIT / delta
    else:
        near, far = _mills(u), _mills(u + m)
        logarithm = log_density + math.log(near - far)
        error += 64 * _UNIT * (near + far) / (near - far)
    # The last term covers the rounding of the logarithm itself, and of its exponential later.
    return logarithm + error + 4 * _UNIT * abs(logarithm)


def _mills_decrease(u: float, m: float) -> float:
    """Return R(u) − R(u+m) as the integral of −R′(x) = 1 − x R(x), for m < ½."""
    half = m / 2
    center = u + half
    terms = []
    for node, weight in _NODES_AND_WEIGHTS:
        left, right = center - half * node, center + half * node
        terms.append(weight * ((1 - left * _mills(left)) + (1 - right * _mills(right))))
    return half * math.fsum(terms)


def _mills(x: float) -> float:
    """Return R(x) = Φ(−x)/φ(x) for x > −1, to about 16 units in the last place."""
    if x < 5:
        return math.sqrt(math.pi / 2) * math.exp(x * x / 2) * math.erfc(x / math.sqrt(2))
    # Laplace's continued fraction is 1/(x + 1/(x + 2/(x + 3/(x + …)))).
    tail = x
    for term in range(60 if x < 10 else 25, 0, -1):
        tail = x + term / tail
    return 1 / tail


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
    # A float that is rounded to nearest may be one step too large.
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
