"""What labeled vectors are drawn from: a label, one of its components, a Gaussian cut to the bounds."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from scipy.interpolate import RegularGridInterpolator
from scipy.special import ndtr
from torch import Tensor

from privot.central.records import ImageRecords, Records
from privot.central.table_fit import PIECE, Law
from privot.local.model import read_condition
from privot.schema import Schema
from privot.schema.domains import from_unit
from privot.training.generators import torch_generator

# Laws whose numbers are tensors: of labeled images and vectors, and networks.


class TensorLaw(Law):
    """A law with tensors, written as arrays."""

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """Its numbers."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """See `Law`."""
        return {name: x.detach().cpu().numpy() for name, x in self.tensors().items()}

    @classmethod
    @abstractmethod
    def of_tensors(
        cls, records: Records, fields: Mapping[str, Any], tensors: Mapping[str, Tensor]
    ) -> Self:
        """The law of these fields and tensors."""

    @classmethod
    def build(
        cls, records: Records, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> Self:
        """See `Law`."""
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        return cls.of_tensors(records, fields, tensors)


class LabeledLaw(TensorLaw):
    """A law of raw values given labels.

    Arguments:
        shares: Probability of each label.
    """

    shares: Tensor

    @abstractmethod
    def values(self, labels: Tensor, rng: torch.Generator) -> Tensor:
        """One record's raw values for each label."""

    def pieces(
        self, records: Records, num_rows: int, rng: np.random.Generator, where: Mapping[str, Any]
    ) -> Iterator[pa.Table]:
        """See `Law`; a condition may name the label of images."""
        rng_torch = torch_generator(rng)
        shares = self.shares * records.wanted(where)
        if not shares.sum():  # labels whose class was lost in the noise
            shares = records.wanted(where)
        labels = torch.empty(0, dtype=torch.int64)
        if num_rows:
            labels = torch.multinomial(shares, num_rows, replacement=True, generator=rng_torch)
        for part in labels.split(PIECE):
            yield records.decode(self.values(part, rng_torch), part, rng_torch)


# Gaussian variables cut to [0, 1]: their moments, and which of them has given moments.
#
# Pixels are bounded: of a component with mean m and variance v, a Gaussian $N(m, v)$ that is cut to
# [0, 1] has another mean and much less variance, the more so the darker the image. Of $X =
# \min(\max(a + bZ, 0), 1)$, with $l = −a/b$ and $u = (1 − a)/b$,
#
# $$ E X = a P + b (φ(l) − φ(u)) + Φ(−u), \qquad P = Φ(u) − Φ(l) , $$
# $$ E X^2 = (a^2 + b^2) P + 2ab (φ(l) − φ(u)) + b^2 (l φ(l) − u φ(u)) + Φ(−u) . $$
#
# $E X$ grows with a, and the variance with b while the mean is kept: (a, b) of given moments are
# found by bisection, once on a grid of means and of variances in units of their most, m(1 − m), and
# read off it by linear interpolation.


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


# What images are drawn from: a label, one of its components, and Gaussian noise cut to [0, 1].
#
# Of component k of label c the mean image is $m_k$, and the covariance within components of the label
# has the diagonal $d$ in pixels. Where a component is bright or dark its pixels cannot vary: pixel i
# is given the variance
#
# $$ v_{ki} = q_{ki} \min\Bigl(\frac{d_i}{\sum_l π_l q_{li}}, .9\Bigr), \quad q_{ki} =
# m_{ki}(1−m_{ki}), $$
#
# which keeps d in the mean over components. Drawn are pixels $\min(\max(a_{ki} + b_{ki} g_i, 0), 1)$
# with g a standard Gaussian that has the label's correlations, and $(a, b)$ those whose cut has mean
# m and variance v (`privot.central.components`). Noise of its own on every pixel stands for the
# frequencies that were left out. A function of what was released.


_MOST = 0.9  # of the variance that a pixel of a mean can have
_LEAST = 1e-4
_TINY = 1e-12
DITHER = 0.075


@dataclass(frozen=True, eq=False)
class ImageMixture(LabeledLaw):
    """Mixtures of Gaussians that are cut to [0, 1], one for each label.

    Arguments:
        images: Their map.
        shares: Probability of each label.
        weights: Of each label's components (labels, K).
        locations: Pixels (labels, K, d) before they are cut.
        scales: Of the noise on them.
        roots: Of covariances within components (labels, p, p), in frequencies.
        spread: Their variances of pixels (labels, d).
        low_pass: How many frequencies along each axis these are.
    """

    kind: ClassVar[str] = "mixture"

    images: ImageRecords
    shares: Tensor
    weights: Tensor
    locations: Tensor
    scales: Tensor
    roots: Tensor
    spread: Tensor
    low_pass: int

    @classmethod
    def of(
        cls, images: ImageRecords, means: Floats, counts: Floats, low: ImageRecords, roots: Floats
    ) -> Self:
        """The law of means (labels, K, d), counts (labels, K) and roots in the frequencies `low`."""
        weights = counts / counts.sum(axis=1, keepdims=True)
        columns = torch.from_numpy(roots).mT.flatten(0, 1)
        factors = low.expand(columns).reshape(*roots.shape[:2], -1)
        spread = factors.square().sum(dim=1).clamp_min(_TINY)
        most = means * (1 - means)
        usual = np.maximum((weights[..., None] * most).sum(axis=1), _LEAST)
        variances = np.minimum((spread.numpy() / usual)[:, None] * most, _MOST * most)
        locations, scales = clipped_to(means, variances)
        labels = counts.sum(axis=1)
        found = {"shares": labels / labels.sum(), "weights": weights, "locations": locations,
                 "scales": scales, "roots": roots, "spread": spread.numpy()}  # fmt: skip
        tensors = {name: torch.from_numpy(part).float() for name, part in found.items()}
        return cls.of_tensors(images, {"low_pass": low.low_pass}, tensors)

    @cached_property
    def _low(self) -> ImageRecords:
        return ImageRecords(self.images.schema, low_pass=self.low_pass, degree=1)

    def values(self, labels: Tensor, rng: torch.Generator) -> Tensor:
        """See `LabeledLaw`."""
        drawn = torch.empty(len(labels), self.locations.shape[2])
        for label in range(len(self.shares)):
            own = torch.nonzero(labels == label)[:, 0]
            if not len(own):
                continue
            of = torch.multinomial(self.weights[label], len(own), replacement=True, generator=rng)
            noise = torch.randn(len(own), self.roots.shape[2], generator=rng)
            waves = self._low.expand(noise @ self.roots[label].T).flatten(1)
            within = waves / self.spread[label].sqrt()
            drawn[own] = self.locations[label][of] + self.scales[label][of] * within
        drawn += DITHER * torch.randn(drawn.shape, generator=rng)
        return drawn.clamp(0.0, 1.0).reshape(-1, *self.images.shape)

    def fields(self) -> dict[str, Any]:
        """See `LabeledLaw`."""
        return {"low_pass": self.low_pass}

    def tensors(self) -> dict[str, Tensor]:
        """See `LabeledLaw`."""
        names = ("shares", "weights", "locations", "scales", "roots", "spread")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def of_tensors(
        cls, records: Records, fields: Mapping[str, Any], tensors: Mapping[str, Tensor]
    ) -> Self:
        """See `LabeledLaw`."""
        assert isinstance(records, ImageRecords)
        return cls(records, **tensors, low_pass=fields["low_pass"])


# Rows of vectors and at most one label: points of a cube, and codes.


@dataclass(frozen=True)
class LabeledVectors:
    """Rows of a schema as points of [−1, 1]^d, and the codes of their label.

    Arguments:
        schema: Vectors in boxes, none of which may be missing, and at most one column of codes.

    Examples:
        >>> vectors = LabeledVectors(Schema.from_dict({"columns": {
        ...     "place": {"kind": "vector", "columns": list("wxyz"), "bounds": [[0, 1]] * 4},
        ...     "sick": {"kind": "boolean"},
        ... }}))
        >>> vectors.label, vectors.num_labels, vectors.dimension
        ('sick', 2, 4)
    """

    schema: Schema

    @property
    def label(self) -> str | None:
        """The column of codes, if there is one."""
        return next(iter(self.schema.coded), None)

    @property
    def num_labels(self) -> int:
        """Codes of the label; 1 without."""
        return 1 if self.label is None else self.schema.coded[self.label].alphabet.size

    @cached_property
    def _widths(self) -> dict[str, int]:
        points = self.schema.points
        return {n: points[n].domain.dimension for n in self.schema.columns if n != self.label}

    @property
    def dimension(self) -> int:
        """Coordinates d of a row."""
        return sum(self._widths.values())

    def encode(self, table: pa.Table) -> tuple[Tensor, Tensor]:
        """Points (n, d) of [−1, 1]^d and labels (n,); what lies beyond bounds is moved to them."""
        parts = [self.schema.points[name].encode_units(name, table) for name in self._widths]
        labels = np.zeros(table.num_rows, np.int64)
        if self.label is not None:
            labels = self.schema.coded[self.label].encode_codes(self.label, table)
        points = np.clip(np.concatenate(parts, axis=1), -1.0, 1.0)
        return torch.from_numpy(points), torch.from_numpy(labels)

    def decode(self, points: Tensor, labels: Tensor, rng: torch.Generator) -> pa.Table:
        """A table of points (n, d) of the cube and labels (n,)."""
        columns: dict[str, pa.Array] = {}
        within = np.random.default_rng(int(torch.randint(2**62, (), generator=rng)))
        parts = points.double().split(list(self._widths.values()), dim=1)
        for (name, _), part in zip(self._widths.items(), parts, strict=True):
            column = self.schema.points[name]
            columns |= column.decode_points(name, from_unit(column.domain, part.numpy()))
        if self.label is not None:
            coded = self.schema.coded[self.label]
            columns |= coded.decode_codes(self.label, labels.numpy(), within)
        return pa.table(columns).select(list(self.schema.table_columns))

    def wanted(self, where: Mapping[str, Any]) -> Tensor:
        """Which labels (num_labels,) meet a condition.

        Raises:
            PrivotError: for another column, or a value that the schema does not declare.
        """
        wanted = torch.ones(self.num_labels)
        for codes in read_condition(self.schema, where).values():
            wanted = torch.zeros(self.num_labels)
            wanted[codes] = 1.0
        return wanted


@dataclass(frozen=True, eq=False)
class VectorMixture(TensorLaw):
    """Mixtures of Gaussians on [−1, 1]^d, one mixture for each label.

    Arguments:
        shares: Probability of each label.
        weights: Of each label's components (labels, K).
        means: Of components (labels, K, d).
        roots: Of their covariances (labels, K, d, d).
    """

    kind: ClassVar[str] = "vectors"

    shares: Tensor
    weights: Tensor
    means: Tensor
    roots: Tensor

    def values(self, labels: Tensor, rng: torch.Generator) -> Tensor:
        """A point (n, d) of the cube for each label."""
        of = torch.zeros_like(labels)
        if len(labels):
            weights = self.weights[labels]
            of = torch.multinomial(weights, 1, replacement=True, generator=rng)[:, 0]
        noise = torch.randn(len(labels), self.means.shape[2], 1, generator=rng)
        drawn = torch.empty(len(labels), self.means.shape[2])
        for component in range(self.means.shape[1]):
            own = of == component
            waves = (self.roots[labels[own], component] @ noise[own])[..., 0]
            drawn[own] = self.means[labels[own], component] + waves
        return drawn.clamp(-1.0, 1.0)

    def pieces(
        self, records: Records, num_rows: int, rng: np.random.Generator, where: Mapping[str, Any]
    ) -> Iterator[pa.Table]:
        """See `Law`; a condition may name the label."""
        rng_torch = torch_generator(rng)
        vectors = LabeledVectors(records.schema)
        wanted = vectors.wanted(where)
        shares = self.shares * wanted
        if not shares.sum():  # labels that were lost in the noise
            shares = wanted
        labels = torch.empty(0, dtype=torch.int64)
        if num_rows:
            labels = torch.multinomial(shares, num_rows, replacement=True, generator=rng_torch)
        for part in labels.split(PIECE):
            yield vectors.decode(self.values(part, rng_torch), part, rng_torch)

    def fields(self) -> dict[str, Any]:
        """See `Law`."""
        return {}

    def tensors(self) -> dict[str, Tensor]:
        """See `Law`."""
        names = ("shares", "weights", "means", "roots")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def of_tensors(
        cls, records: Records, fields: Mapping[str, Any], tensors: Mapping[str, Tensor]
    ) -> Self:
        """See `Law`."""
        return cls(**tensors)
