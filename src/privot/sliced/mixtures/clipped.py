r"""Gaussian variables cut to [0, 1]: their moments, and which of them has given moments.

Pixels are bounded: of a component with mean m and variance v, a Gaussian $N(m, v)$ that is cut to
[0, 1] has another mean and much less variance, the more so the darker the image. Of $X = \min(\max(a +
bZ, 0), 1)$, with $l = −a/b$ and $u = (1 − a)/b$,

$$ E X = a P + b (φ(l) − φ(u)) + Φ(−u), \qquad P = Φ(u) − Φ(l) , $$
$$ E X^2 = (a^2 + b^2) P + 2ab (φ(l) − φ(u)) + b^2 (l φ(l) − u φ(u)) + Φ(−u) . $$

$E X$ grows with a, and the variance with b while the mean is kept: (a, b) of given moments are found by
bisection, once on a grid of means and of variances in units of their most, m(1 − m), and read off it by
linear interpolation.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import RegularGridInterpolator
from scipy.special import ndtr

Floats = NDArray[np.float64]

_MEANS = np.linspace(0.0, 1.0, 81)[1:-1]
# Of the most there may be: at 1 all mass is at 0 and 1, and b infinite.
_VARIANCES = 0.97 * np.linspace(0.0, 1.0, 61)[1:-1]
_HALVINGS = 50


def clipped_moments(location: Floats, scale: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of location + scale·Z, cut to [0, 1].

    Examples:
        >>> mean, variance = clipped_moments(np.array([0.5, 0.0]), np.array([1e-3, 1e-3]))
        >>> mean.round(4).tolist(), variance.round(8).tolist()
        ([0.5, 0.0004], [1e-06, 3.4e-07])
    """
    low, high = -location / scale, (1 - location) / scale
    inside = ndtr(high) - ndtr(low)
    at_low, at_high = _density(low), _density(high)
    slope = scale * (at_low - at_high)
    mean = location * inside + slope + ndtr(-high)
    square = (
        (location**2 + scale**2) * inside
        + location * slope
        + scale * (at_low * (location + scale * low) - at_high * (location + scale * high))
        + ndtr(-high)
    )
    return mean, np.maximum(square - mean**2, 0.0)


def clipped_to(mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Location and scale whose cut to [0, 1] has these moments, as nearly as there is one.

    Means are taken to lie in [1/80, 79/80], variances in 1.6 to 95 % of m(1 − m).

    Examples:
        >>> location, scale = clipped_to(np.array([0.3]), np.array([0.1]))
        >>> [part.round(2).tolist() for part in clipped_moments(location, scale)]
        [[0.3], [0.1]]
    """
    locations, scales = _inverse()
    mean = np.clip(mean, _MEANS[0], _MEANS[-1])
    share = np.clip(variance / (mean * (1 - mean)), _VARIANCES[0], _VARIANCES[-1])
    at = np.stack([mean.ravel(), share.ravel()], axis=1)
    return locations(at).reshape(mean.shape), np.exp(scales(at)).reshape(mean.shape)


def _density(x: Floats) -> Floats:
    return np.asarray(np.exp(-x * x / 2) / np.sqrt(2 * np.pi))


@cache
def _inverse() -> tuple[RegularGridInterpolator, RegularGridInterpolator]:
    """Locations, and logarithms of scales, by mean and share of the variance."""
    mean, share = np.meshgrid(_MEANS, _VARIANCES, indexing="ij")
    below, above = np.full(mean.shape, -7.0), np.full(mean.shape, 7.0)
    for _ in range(_HALVINGS):
        middle = (below + above) / 2
        scale = np.exp(middle)
        little = clipped_moments(_location(mean, scale), scale)[1] < share * mean * (1 - mean)
        below, above = np.where(little, middle, below), np.where(little, above, middle)
    logarithm = (below + above) / 2
    places = (_MEANS, _VARIANCES)
    location = _location(mean, np.exp(logarithm))
    return RegularGridInterpolator(places, location), RegularGridInterpolator(places, logarithm)


def _location(mean: Floats, scale: Floats) -> Floats:
    """The location of this scale and mean."""
    below, above = -12 * scale, 1 + 12 * scale
    for _ in range(_HALVINGS + 10):
        middle = (below + above) / 2
        little = clipped_moments(middle, scale)[0] < mean
        below, above = np.where(little, middle, below), np.where(little, above, middle)
    return np.asarray((below + above) / 2)
