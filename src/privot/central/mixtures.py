r"""Mixtures of Gaussians for labeled images and vectors, from which records are sampled.

**Gaussian variables clipped to [0, 1].** Pixels are bounded. If a pixel has mean m and variance v, a
Gaussian $N(m, v)$ clipped to [0, 1] has another mean and less variance, above all in dark images. For
$X = \min(\max(a + bZ, 0), 1)$, with Z standard normal of density φ and distribution function Φ,
$l = −a/b$ and $u = (1 − a)/b$,

$$ E X = a P + b (φ(l) − φ(u)) + Φ(−u), \qquad P = Φ(u) − Φ(l) , $$
$$ E X^2 = (a^2 + b^2) P + ab (φ(l) − φ(u)) + b \bigl((a + bl) φ(l) − (a + bu) φ(u)\bigr) + Φ(−u) . $$

$E X$ grows with the location a, and at a fixed mean the variance grows with the scale b. So bisection
finds (a, b) for the moments of a grid, of means and of variances relative to their maximum m(1 − m).
Other moments are interpolated linearly.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from scipy.interpolate import RegularGridInterpolator
from scipy.special import ndtr
from torch import Tensor

from privot.central.fitting import PIECE, Law
from privot.central.records import ImageRecords, LabeledRecords
from privot.central.sums import Floats
from privot.training.generators import torch_generator

# Clipped Gaussians: grids of means m, and of variances relative to their supremum m(1 − m).
_MEANS = np.linspace(0.0, 1.0, 81)[1:-1]
_VARIANCES = 0.97 * np.linspace(0.0, 1.0, 61)[1:-1]
_MAX_LOG_SCALE = 7.0  # |log b| of the bisection
_REACH = 12.0  # the bisection for a searches [0, 1] and this many b beyond
_MAX_SHARE = 0.9  # largest variance of a pixel relative to m(1 − m)
_MIN_VARIANCE, _TINY = 1e-4, 1e-12  # smallest divisors of variances
DITHER = 0.075  # standard deviation of the independent noise that replaces omitted frequencies


class LabeledLaw(Law):
    """Law of raw values given labels, whose parameters are tensors.

    Attributes:
        shares: Probability of each label (labels,).
    """

    shares: Tensor

    @abstractmethod
    def values(self, labels: Tensor, rng: torch.Generator) -> Tensor:
        """Sample raw values (n, …) of one record for each of the labels (n,)."""

    def pieces(
        self,
        records: LabeledRecords,
        num_rows: int,
        rng: np.random.Generator,
        where: Mapping[str, Any],
    ) -> Iterator[pa.Table]:
        """See `Law`; `where` may name the label."""
        generator, allowed = torch_generator(rng), torch.from_numpy(records.allowed(where))
        shares = self.shares * allowed
        if not shares.sum():  # all allowed labels have estimated share 0
            shares = allowed
        labels = torch.empty(0, dtype=torch.int64)
        if num_rows:
            labels = torch.multinomial(shares, num_rows, replacement=True, generator=generator)
        for part in labels.split(PIECE):
            yield records.decode(self.values(part, generator), part, generator)

    def tensors(self) -> dict[str, Tensor]:
        """Return the parameters of the law by name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {name: x.detach().cpu().numpy() for name, x in self.tensors().items()}


def tensors_of(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    """Convert named arrays to tensors."""
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def clipped_moments(location: Floats, scale: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance of location + scale·Z, clipped to [0, 1].

    Examples:
        >>> mean, variance = clipped_moments(np.array([0.5, 0.0]), np.array([1e-3, 1e-3]))
        >>> mean.round(4).tolist(), variance.round(8).tolist()
        ([0.5, 0.0004], [1e-06, 3.4e-07])
    """
    low, high = -location / scale, (1 - location) / scale
    inside = ndtr(high) - ndtr(low)
    at_low, at_high = (np.exp(-x * x / 2) / np.sqrt(2 * np.pi) for x in (low, high))  # φ
    slope = scale * (at_low - at_high)
    mean = location * inside + slope + ndtr(-high)
    square = (
        (location**2 + scale**2) * inside
        + location * slope
        + scale * (at_low * (location + scale * low) - at_high * (location + scale * high))
        + ndtr(-high)
    )
    return mean, np.maximum(square - mean**2, 0.0)


def location_and_scale(mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Return location and scale for which a clipped Gaussian has nearly these moments.

    The mean m is clipped to [1/80, 79/80], the variance to 1.6 to 95 % of m(1 − m).

    Examples:
        >>> location, scale = location_and_scale(np.array([0.3]), np.array([0.1]))
        >>> [part.round(2).tolist() for part in clipped_moments(location, scale)]
        [[0.3], [0.1]]
    """
    locations, log_scales = _interpolators()
    mean = np.clip(mean, _MEANS[0], _MEANS[-1])
    share = np.clip(variance / (mean * (1 - mean)), _VARIANCES[0], _VARIANCES[-1])
    moments = np.stack([mean.ravel(), share.ravel()], axis=1)
    return locations(moments).reshape(mean.shape), np.exp(log_scales(moments)).reshape(mean.shape)


@cache
def _interpolators() -> tuple[RegularGridInterpolator, RegularGridInterpolator]:
    """Return interpolators of location and log scale over means m and variances relative to m(1 − m)."""
    mean, share = np.meshgrid(_MEANS, _VARIANCES, indexing="ij")

    def variance(log_scale: Floats) -> Floats:
        scale = np.exp(log_scale)
        return clipped_moments(_location(mean, scale), scale)[1]

    largest = np.full(mean.shape, _MAX_LOG_SCALE)
    log_scale = _bisect(variance, share * mean * (1 - mean), -largest, largest, halvings=50)
    location = _location(mean, np.exp(log_scale))
    grid = (_MEANS, _VARIANCES)
    return RegularGridInterpolator(grid, location), RegularGridInterpolator(grid, log_scale)


def _location(mean: Floats, scale: Floats) -> Floats:
    """Return the location at which a clipped Gaussian of this scale has this mean."""
    low, high = -_REACH * scale, 1 + _REACH * scale
    return _bisect(lambda location: clipped_moments(location, scale)[0], mean, low, high, 60)


def _bisect(
    function: Callable[[Floats], Floats], target: Floats, low: Floats, high: Floats, halvings: int
) -> Floats:
    """Find, elementwise, the point of [low, high] where an increasing function equals the target."""
    for _ in range(halvings):
        middle = (low + high) / 2
        below = function(middle) < target
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray((low + high) / 2)


@dataclass(frozen=True, eq=False)
class ImageMixture(LabeledLaw):
    r"""Mixtures of Gaussians clipped to [0, 1], one mixture for each label.

    Component k of a label has the weight $π_k$ and the mean image $m_k$; the components of a label share
    a covariance, by which pixel i has the variance $s_i$. Very bright or dark pixels can hardly vary, so
    pixel i of component k has the variance

    $$ v_{ki} = q_{ki} \min\Bigl(\frac{s_i}{\sum_l π_l q_{li}}, .9\Bigr), \quad q_{ki} =
    m_{ki}(1−m_{ki}), $$

    whose mean over components is $s_i$ (without the bound .9). Sampled pixels are
    $\min(\max(a_{ki} + b_{ki} g_i, 0), 1)$, with g a standard Gaussian with the label's correlations,
    and $(a, b)$ such that the clipped variable has mean m and variance v (`location_and_scale`).
    Independent noise on every pixel replaces omitted frequencies.

    Arguments:
        images: Map of the images.
        low_pass: Number of frequencies of `roots` along each axis.
        shares: Probability of each label (labels,).
        weights: Weights of each label's components (labels, K).
        locations: Locations a (labels, K, pixels).
        scales: Scales b (labels, K, pixels).
        roots: Roots A of covariances A Aᵀ within components (labels, p, p), in p frequencies.
        spread: Variances s of pixels that `roots` imply (labels, pixels).
    """

    kind: ClassVar[str] = "mixture"

    images: ImageRecords
    low_pass: int | None
    shares: Tensor
    weights: Tensor
    locations: Tensor
    scales: Tensor
    roots: Tensor
    spread: Tensor

    @classmethod
    def of(
        cls, images: ImageRecords, means: Floats, counts: Floats, low: ImageRecords, roots: Floats
    ) -> Self:
        """Build the law from means (labels, K, pixels), counts (labels, K) and roots in `low`."""
        weights = counts / counts.sum(axis=1, keepdims=True)
        columns = torch.from_numpy(roots).mT.flatten(0, 1)  # of all roots (labels·p, p)
        factors = low.expand(columns).reshape(*roots.shape[:2], -1)  # (labels, p, pixels)
        spread = factors.square().sum(dim=1).clamp_min(_TINY)
        largest = means * (1 - means)  # q
        average = np.maximum((weights[..., None] * largest).sum(axis=1), _MIN_VARIANCE)
        variances = np.minimum((spread.numpy() / average)[:, None] * largest, _MAX_SHARE * largest)
        locations, scales = location_and_scale(means, variances)
        by_label = counts.sum(axis=1)
        shares = by_label / by_label.sum()
        parameters = (shares, weights, locations, scales, roots, spread.numpy())
        return cls(images, low.low_pass, *(torch.from_numpy(part).float() for part in parameters))

    def values(self, labels: Tensor, rng: torch.Generator) -> Tensor:
        low = ImageRecords(self.images.schema, low_pass=self.low_pass, degree=1)
        drawn = torch.empty(len(labels), self.locations.shape[2])
        for label in labels.unique().tolist():
            rows = torch.nonzero(labels == label)[:, 0]
            components = torch.multinomial(
                self.weights[label], len(rows), replacement=True, generator=rng
            )
            noise = torch.randn(len(rows), self.roots.shape[2], generator=rng)
            correlated = low.expand(noise @ self.roots[label].T).flatten(1)
            standard = correlated / self.spread[label].sqrt()
            locations, scales = self.locations[label][components], self.scales[label][components]
            drawn[rows] = locations + scales * standard
        drawn += DITHER * torch.randn(drawn.shape, generator=rng)
        return drawn.clamp(0.0, 1.0).reshape(-1, *self.images.shape)

    def fields(self) -> dict[str, Any]:
        return {"low_pass": self.low_pass}

    @classmethod
    def build(
        cls, records: ImageRecords, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> Self:
        return cls(records, fields["low_pass"], **tensors_of(arrays))


@dataclass(frozen=True, eq=False)
class VectorMixture(LabeledLaw):
    """Mixtures of Gaussians on [−1, 1]^d, one mixture for each label.

    Arguments:
        shares: Probability of each label (labels,).
        weights: Weights of each label's components (labels, K).
        means: Means of components (labels, K, d).
        roots: Roots A of components' covariances A Aᵀ (labels, K, d, d).
    """

    kind: ClassVar[str] = "vectors"

    shares: Tensor
    weights: Tensor
    means: Tensor
    roots: Tensor

    @classmethod
    def of(cls, counts: Floats, means: Floats, roots: Floats) -> Self:
        """Build the law of components with these counts (labels, K), means and roots."""
        by_label = counts.sum(axis=1, keepdims=True)
        shares, weights = by_label[:, 0] / counts.sum(), counts / by_label
        parameters = (shares, weights, np.clip(means, -1.0, 1.0), roots)
        return cls(*(torch.from_numpy(part).float() for part in parameters))

    def values(self, labels: Tensor, rng: torch.Generator) -> Tensor:
        """See `LabeledLaw`: points (n, d) of the cube."""
        components = torch.zeros_like(labels)
        if len(labels):
            weights = self.weights[labels]
            components = torch.multinomial(weights, 1, replacement=True, generator=rng)[:, 0]
        noise = torch.randn(len(labels), self.means.shape[2], 1, generator=rng)
        drawn = torch.empty(len(labels), self.means.shape[2])
        for component in range(self.means.shape[1]):
            rows = components == component
            residuals = (self.roots[labels[rows], component] @ noise[rows])[..., 0]
            drawn[rows] = self.means[labels[rows], component] + residuals
        return drawn.clamp(-1.0, 1.0)

    @classmethod
    def build(
        cls, records: Any, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> Self:
        return cls(**tensors_of(arrays))
