r"""The log density ratio of one coordinate: a penalized spline.

With cells of probability $m_i$ under the reference and $n_i$ of $n$ records in them, minimize over cubic
splines $g$

$$ −\frac1n \sum_i n_i g_i + \log \sum_i m_i e^{g_i} + \frac{λ}{2} \int (g‴)^2 , $$

the penalized likelihood of $p ∝ q_0 e^{g}$ (Silverman 1982). The penalty leaves quadratics alone: with a
normal reference, $λ → ∞$ gives the normal law of the records' mean and variance. Knots stand at
quantiles of the records and of the reference; beyond the records $g$ goes on as a straight line. λ is
chosen by five-fold cross-validation.

What is kept of $g$ are its values at the cells' middles, which are public, and straight lines between
them: how many knots there are, and where, depends on the records, and must not show in what an
evaluation costs.

All of this looks at the records as often as it likes: whatever $g$ is, it is clipped before anything is
drawn, and the guarantee is that of the clipped tilt.

References:
    Silverman, *On the estimation of a probability density function by the maximum penalized likelihood
    method* (1982); Eilers, Marx, *Flexible smoothing with B-splines and penalties* (1996).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from scipy.interpolate import BSpline
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from privot.errors import PrivotError
from privot.integral.densities.density import Arrays, Packed
from privot.integral.densities.grid import Axis
from privot.integral.densities.marginals import Marginal
from privot.integral.densities.references import Reference
from privot.integral.densities.secure import Floats

_CELLS = 2048
_INTERVALS = 32
_FOLDS = 5
_PENALTIES = np.logspace(2, -8, 21)
_RIDGE = 1e-7
_MOST = 60.0  # |g| beyond this has no meaning once clipped


@dataclass(frozen=True, repr=False)
class SplineRatio:
    """The ratio log p/q₀ up to a constant, of one coordinate: `values` at the middles of its cells."""

    kind: ClassVar[str] = "spline"
    marginal: Marginal
    values: Floats

    def __call__(self, x: Floats, /) -> Floats:
        """Values (n,) at points (n, 1)."""
        return np.interp(self.marginal.features(x[:, 0])[:, 0], self._middles, self.values)

    @cached_property
    def _middles(self) -> Floats:
        return _middles(Axis(self.marginal, self.marginal.edges(_CELLS)))

    def pack(self) -> Packed:
        """See `Tilt`: the values; where they hold follows from the reference."""
        return {}, {"values": self.values}

    @classmethod
    def unpack(cls, fields: dict[str, Any], arrays: Arrays, reference: Reference) -> Self:
        """See `Tilt`."""
        if reference.marginals is None:
            raise PrivotError("a spline needs a reference with a marginal: the model is damaged")
        return cls(reference.marginals[0], arrays["values"])


def fit_spline(records: Floats, marginal: Marginal, seed: int) -> SplineRatio:
    """The penalized spline of records (n, 1); one record, or equal ones, will do."""
    axis = Axis(marginal, marginal.edges(_CELLS))
    masses = axis.masses.astype(np.float64) / 2.0**64
    z = _middles(axis)
    own = marginal.features(records[:, 0])[:, 0]
    knots = _knots(own, z, masses)
    low, high = float(knots[3]), float(knots[-4])
    size = len(knots) - 4
    basis = np.stack(
        [_evaluate(BSpline(knots, unit, 3), z, low, high) for unit in np.eye(size)], axis=1
    )
    penalty = _roughness(knots, size)
    folds = np.random.default_rng(seed).permutation(len(records)) % _FOLDS
    cells = axis.locate(records[:, 0])
    counts = np.zeros((_FOLDS, axis.size))
    np.add.at(counts, (folds, cells), 1.0)
    chosen = _cross_validate(basis, masses, penalty, counts) if len(records) >= 50 else 1.0
    beta = _fit(basis, masses, penalty, counts.sum(axis=0) / len(records), chosen, np.zeros(size))
    return SplineRatio(marginal, np.clip(basis @ beta, -_MOST, _MOST))


def _middles(axis: Axis) -> Floats:
    """What is seen of the median points (cells,) of cells."""
    return axis.marginal.features(axis.middles)[:, 0]


def _knots(own: Floats, z: Floats, masses: Floats) -> Floats:
    """Knots at quantiles of the records and of the reference, as a padded B-spline needs them."""
    shares = np.linspace(0, 1, _INTERVALS // 2 + 1)
    of_reference = np.interp(shares[1:-1], np.cumsum(masses), z)
    low, high = float(own.min()), float(own.max())
    if high - low < 1e-3:  # equal records
        low, high = low - 0.5, high + 0.5
    inner = np.concatenate([np.quantile(own, shares[1:-1]), of_reference])
    inner = np.sort(inner[(inner > low) & (inner < high)])
    least = (high - low) / (8 * _INTERVALS)
    kept = [low]
    for knot in inner:
        if knot - kept[-1] > least and high - knot > least:
            kept.append(float(knot))
    return np.concatenate([[low] * 3, kept, [high] * 4])


def _evaluate(spline: BSpline, z: Floats, low: float, high: float) -> Floats:
    inside = np.clip(z, low, high)
    slope = spline.derivative(1)
    slopes = np.where(z < low, slope(low), np.where(z > high, slope(high), 0.0))
    return np.asarray(spline(inside) + slopes * (z - inside), np.float64)


def _roughness(knots: Floats, size: int) -> Floats:
    """∫ (g‴)² as a quadratic form: g‴ of a cubic spline is constant between knots."""
    spans = np.unique(knots)
    middles, lengths = (spans[:-1] + spans[1:]) / 2, np.diff(spans)
    third = np.stack(
        [BSpline(knots, unit, 3).derivative(3)(middles) for unit in np.eye(size)], axis=1
    )
    return np.asarray(third.T @ (third * lengths[:, None]), np.float64)


def _cross_validate(basis: Floats, masses: Floats, penalty: Floats, counts: Floats) -> float:
    """The penalty with the best likelihood on folds (folds, cells) left out."""
    scores = np.zeros(len(_PENALTIES))
    for fold in counts:
        rest = counts.sum(axis=0) - fold
        beta = np.zeros(basis.shape[1])
        for i, weight in enumerate(_PENALTIES):
            beta = _fit(basis, masses, penalty, rest / rest.sum(), weight, beta)
            scores[i] += _loss(basis @ beta, masses, fold)
    return float(_PENALTIES[np.argmin(scores)])


def _loss(g: Floats, masses: Floats, counts: Floats) -> float:
    top = g.max()
    return float(counts.sum() * (np.log(masses @ np.exp(g - top)) + top) - counts @ g)


def _fit(
    basis: Floats, masses: Floats, penalty: Floats, shares: Floats, weight: float, beta: Floats
) -> Floats:
    """Newton's method with step halving; the loss is convex."""
    form = weight * penalty + _RIDGE * np.eye(len(beta))

    def loss(b: Floats) -> float:
        return _loss(basis @ b, masses, shares) + 0.5 * float(b @ form @ b)

    now = loss(beta)
    for _ in range(50):
        g = basis @ beta
        p = masses * np.exp(g - g.max())
        p /= p.sum()
        mean = basis.T @ p
        gradient = mean - basis.T @ shares + form @ beta
        hessian = (basis.T * p) @ basis - np.outer(mean, mean) + form
        try:
            step = cho_solve(cho_factor(hessian), gradient)
        except LinAlgError:
            break
        decrease, length = float(gradient @ step), 1.0
        if decrease < 1e-10:
            break
        while (new := loss(beta - length * step)) > now - 0.1 * length * decrease and length > 1e-6:
            length /= 2
        if length <= 1e-6:
            break
        beta, now = beta - length * step, new
    return beta
