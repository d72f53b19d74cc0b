r"""Gaussian classes: labels, and given the label a Gaussian that is brought to the unit sphere.

A record is a label c, of share $w_c$, and a point z of the unit sphere of $ℝ^q$
(`privot.mechanisms.candidates.coordinates`). Given c, with ξ, η standard normal,

$$ z' = k_c \big( m_c + P_c (A ξ + D^{1/2} η) \big), \qquad z = z' / ‖z'‖ , $$

A being q × r, D diagonal, and $k_c$ such that $\mathbb E ‖z'‖^2 = 1$. All classes share A and D:
covariances of their own cost more reports than they bring. $P_c = I − ρ_c h_c h_c^⊤$ with the mean's
direction $h_c = m_c / ‖m_c‖$ and $ρ_c = ‖m_c‖^2 / (‖m_c‖^2 + \mathrm{tr} (A A^⊤ + D))$ flattens the
Gaussian to the sphere, the more, the more concentrated it is: what it says of the direction that leads
away from the sphere is left out, so that no parameter means nothing.

**The tilt.** The likelihood's closed form ([`likelihood`][privot.local.gaussians.likelihood]) counts a
longer z′ more: with s = $a_0 + a_1 ‖z'‖^2$, by

$$ Z(s) = b + (a − b) \, Φ\big(−t / \sqrt{s + τ^2}\big) . $$

So the law of records that the likelihood is about is that of z with weight Z: points z′ are drawn, and
kept with probability proportional to Z(s), up to a ceiling that one in a thousand passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privot.local.gaussians.channel import SmoothChannel
from privot.schema import Array

_PILOT, _CEILING = 4096, 0.999


@dataclass(frozen=True, eq=False)
class GaussianClasses:
    """Labels with a Gaussian each, brought to the sphere.

    Arguments:
        channel: How reports were made, which decides the tilt.
        shares: w (C,), which add up to 1.
        missing: Share of missing points in each class (C,).
        means: m (C, q).
        factors: A (q, r).
        variances: Of D (q,).
    """

    channel: SmoothChannel
    shares: Array
    missing: Array
    means: Array
    factors: Array
    variances: Array

    @cached_property
    def directions(self) -> Array:
        """Of the means, (C, q)."""
        lengths = np.linalg.norm(self.means, axis=1, keepdims=True)
        return np.asarray(self.means / np.maximum(lengths, 1e-12))

    @cached_property
    def flatness(self) -> Array:
        """ρ (C,)."""
        squared = (self.means**2).sum(axis=1)
        return np.asarray(squared / (squared + (self.factors**2).sum() + self.variances.sum()))

    @cached_property
    def scales(self) -> Array:
        """K (C,)."""
        along = ((self.directions @ self.factors) ** 2).sum(axis=1)
        along += self.directions**2 @ self.variances
        total = (self.factors**2).sum() + self.variances.sum()
        trace = total - (2 * self.flatness - self.flatness**2) * along
        return np.asarray(((self.means**2).sum(axis=1) + trace) ** -0.5)

    def draw_labels(
        self, count: int, rng: np.random.Generator, allowed: list[int] | None = None
    ) -> NDArray[np.int64]:
        """Labels (n,), of those allowed."""
        shares = self.shares
        if allowed is not None:
            shares = np.where(np.isin(np.arange(len(shares)), allowed), shares, 0.0)
        return rng.choice(len(shares), count, p=shares / shares.sum())

    def draw_points(self, labels: NDArray[np.integer], rng: np.random.Generator) -> Array:
        """Points (n, q) of the sphere, rows of NaN being missing, given labels (n,)."""
        points = np.empty((len(labels), self.means.shape[1]))
        for label in np.unique(labels):
            rows = np.flatnonzero(labels == label)
            points[rows] = self._present(int(label), len(rows), rng)
        points[rng.random(len(labels)) < self.missing[labels]] = np.nan
        return points

    def _present(self, label: int, count: int, rng: np.random.Generator) -> Array:
        """Points (count, q) of a class that are not missing."""
        ceiling = np.quantile(self._weights(self._untilted(label, _PILOT, rng)), _CEILING)
        kept, found = [np.empty((0, self.means.shape[1]))], 0
        while found < count:
            points = self._untilted(label, max(256, 4 * (count - found)), rng)
            weights = self._weights(points)
            kept.append(points[rng.random(len(points)) * ceiling < weights])
            found += len(kept[-1])
        points = np.concatenate(kept)[:count]
        return np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True))

    def _untilted(self, label: int, count: int, rng: np.random.Generator) -> Array:
        size, rank = self.factors.shape
        noise = rng.standard_normal((count, rank)) @ self.factors.T
        noise += rng.standard_normal((count, size)) * np.sqrt(self.variances)
        direction = self.directions[label]
        noise -= self.flatness[label] * (noise @ direction)[:, None] * direction
        return np.asarray(self.scales[label] * (self.means[label] + noise))

    def _weights(self, points: Array) -> Array:
        return self.channel.mass((points**2).sum(axis=1))
