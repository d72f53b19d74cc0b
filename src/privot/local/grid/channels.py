r"""Reports counted on a grid, and how likely each is under a density on a grid.

**Density.** A density on $[−1, 1]^d$ is linear between the nodes of a grid. Nodes stand at $−1 + 2k/K$,
$k ∈ 0 … K$ a coordinate. The weight of each is the share of a **hat**: the product over coordinates of
triangles of half-width $2/K$ (half a triangle at the ends). So the density is continuous, a sample of it
shows no grid, and the law of record cells is linear in the weights.

**Channels.** The counts of distinct reports are sufficient, and their probabilities are linear in the
weights p: $P(y) = \sum_k A_{yk} p_k$. The matrix A is never formed: windows that are balls are a
convolution, by fast Fourier transform; whatever is independent by coordinate is a product of one small
matrix per coordinate. Weights are flat, those of the nodes first; where values may be missing, their
share is the last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa
import scipy

from privot.core.errors import PrivotError
from privot.mechanisms.forms import Form, NoiseForm, WindowForm
from privot.randomizer import Randomizer, Release
from privot.schema.domains import Array, from_unit

# Records drawn at a time to fulfill a condition, and in all before it is refused.
_MIN_DRAWS, _MAX_DRAWS, _MAX_DRAWS_PER_ROW = 2**14, 2**22, 200
_TAIL = 6.0  # of Gaussian noise, in standard deviations
_MAX_BINS = 1024
MAX_SPACINGS = {1: 256, 2: 128, 3: 32}  # K at most, by dimension


@dataclass(frozen=True, eq=False)
class GridDensity:
    """Shares of hats, and of values that are missing."""

    weights: Array  # weights of the nodes (K+1, …, K+1), > 0 and up to 1 with `missing` in sum
    missing: float = 0.0  # the share of missing values

    @classmethod
    def of(cls, flat: Array, shape: tuple[int, ...]) -> GridDensity:
        """Restore the density of flat weights, of the nodes first."""
        nodes = math.prod(shape)
        return cls(flat[:nodes].reshape(shape), float(flat[nodes:].sum()))

    @property
    def flat(self) -> Array:
        """Weights as channels take them: flat, the share of missing values last, if any."""
        weights = self.weights.ravel()
        return np.append(weights, self.missing) if self.missing else weights

    def sample(self, num_rows: int, rng: np.random.Generator) -> Array:
        """Draw points (num_rows, d) in unit coordinates; rows of NaN are missing.

        Examples:
            >>> one = GridDensity(np.array([0.0, 1.0, 0.0]))
            >>> float(abs(one.sample(1000, np.random.default_rng(0))).max()) < 1
            True
        """
        last = self.weights.shape[0] - 1
        shares = np.append(self.weights.ravel(), self.missing)
        ends = np.cumsum(shares)
        drawn = np.searchsorted(ends, rng.random(num_rows) * ends[-1], side="right")
        drawn = np.minimum(drawn, np.flatnonzero(shares)[-1])
        absent = drawn == self.weights.size
        nodes = np.unravel_index(np.where(absent, 0, drawn), self.weights.shape)
        places = np.stack(nodes, axis=1) + rng.triangular(-1, 0, 1, (num_rows, self.weights.ndim))
        places = last - np.abs(last - np.abs(places))  # half a hat is a whole one, folded
        points: Array = places * (2 / last) - 1
        points[absent] = np.nan
        return points


@dataclass(frozen=True, eq=False)
class GridSampler:
    """A density of one column of points."""

    density: GridDensity  # density in unit coordinates
    name: str  # name of the column
    randomizer: Randomizer  # the randomizer that it was reported by
    kind: ClassVar[str] = "grid"

    def records(
        self, num_rows: int, rng: np.random.Generator, where: Mapping[str, list[int]]
    ) -> pa.Table:
        """See `privot.local.model.Sampler`: given codes, records are drawn until enough have one."""
        if not where:
            return self._draw(num_rows, rng)
        (codes,), accepted, drawn = where.values(), [self._draw(0, rng)], 0
        coded = self.randomizer.schema.coded[self.name]
        while sum(part.num_rows for part in accepted) < num_rows:
            if drawn > _MAX_DRAWS + _MAX_DRAWS_PER_ROW * num_rows:
                raise PrivotError(f"where {dict(where)} has hardly any probability: relax it")
            part = self._draw(max(_MIN_DRAWS, num_rows), rng)
            drawn += part.num_rows
            accepted.append(part.filter(np.isin(coded.encode_codes(self.name, part), codes)))
        return pa.concat_tables(accepted).slice(0, num_rows).combine_chunks()

    def _draw(self, num_rows: int, rng: np.random.Generator) -> pa.Table:
        column = self.randomizer.schema.point_column(self.name)
        drawn = self.density.sample(num_rows, rng)
        absent = np.isnan(drawn).any(axis=1)
        drawn[absent] = 0.0
        units = self.randomizer.mechanisms[self.name].places(drawn, column.domain)
        points = from_unit(column.domain, units)
        points[absent] = np.nan
        return pa.table(column.decode_points(self.name, points))

    def shape(self) -> dict[str, Any]:
        """See `privot.local.model.Sampler`."""
        return {"column": self.name}

    def arrays(self) -> dict[str, Array]:
        """See `privot.local.model.Sampler`."""
        return {"weights": self.density.weights, "missing": np.array([self.density.missing])}

    @classmethod
    def build(
        cls, randomizer: Randomizer, shape: Mapping[str, Any], arrays: Mapping[str, Array]
    ) -> GridSampler:
        """Restore the sampler that `shape` and `arrays` describe."""
        density = GridDensity(arrays["weights"], float(arrays["missing"][0]))
        return cls(density, shape["column"], randomizer)


def cell_shares(steps: int, spacings: int) -> Array:
    """Compute shares (N+1, K+1) of each hat that round to each of the cells −1 + 2j/N.

    Examples:
        >>> cell_shares(2, 2)
        array([[0.75 , 0.125, 0.   ],
               [0.25 , 0.75 , 0.25 ],
               [0.   , 0.125, 0.75 ]])
    """
    ends = np.concatenate([[0.0], np.arange(steps) + 0.5, [float(steps)]]) * (spacings / steps)
    gap = np.clip(ends[:, None] - np.arange(spacings + 1), -1.0, 1.0)
    below = 0.5 + gap - 0.5 * gap * np.abs(gap)  # the share of a whole hat below an end
    shares = np.diff(below, axis=0)
    return np.asarray(shares / shares.sum(axis=0))


class GridChannel(Protocol):
    """Probabilities of reports as a linear function of a grid's weights."""

    @property
    def spacings(self) -> int:
        """K: a coordinate has K + 1 nodes."""

    @property
    def counts(self) -> Array:
        """Number of people who sent each report (m,)."""

    def forward(self, weights: Array) -> Array:
        """Compute P(report) (m,), > 0, from weights (k,)."""

    def back(self, ratios: Array) -> Array:
        """Apply the transpose: (k,) from numbers (m,)."""


@dataclass(frozen=True, eq=False)
class ProductChannel:
    """Noise, or windows, that are independent by coordinate."""

    counts: Array  # counts of all reports, flat
    matrices: Sequence[Array]  # for each coordinate, P(report | node) as (reports, nodes)

    @property
    def spacings(self) -> int:
        """See `GridChannel`."""
        return self.matrices[0].shape[1] - 1

    def forward(self, weights: Array) -> Array:
        """See `GridChannel`."""
        return apply_along_axes(
            self.matrices, weights.reshape([a.shape[1] for a in self.matrices])
        ).ravel()

    def back(self, ratios: Array) -> Array:
        """See `GridChannel`."""
        turned = [a.T for a in self.matrices]
        return apply_along_axes(turned, ratios.reshape([a.shape[1] for a in turned])).ravel()


@dataclass(frozen=True, eq=False)
class BallChannel:
    """Windows that are balls, of values that may be missing."""

    counts: Array  # counts of all report cells, flat; then of reports that the value is missing
    form: WindowForm  # the windows
    spacings: int  # K: a coordinate has K + 1 nodes

    def forward(self, weights: Array) -> Array:
        """See `GridChannel`."""
        form = self.form
        inner = apply_along_axes(
            self._shares, self._split(weights).reshape((self.spacings + 1,) * form.dimension)
        )
        near = np.maximum(self._convolve(np.pad(inner, form.reach)), 0.0).ravel()
        if form.flagged:
            near = np.append(near, weights[-1]) * self._multiplicity
        return (
            form.outside * weights.sum() * self._multiplicity + (form.inside - form.outside) * near
        )

    def back(self, ratios: Array) -> Array:
        """See `GridChannel`."""
        form = self.form
        weighed = ratios * self._multiplicity
        cells = self._split(weighed).reshape((self._width,) * form.dimension)
        inner = self._convolve(cells)[
            (slice(form.reach, form.reach + form.steps + 1),) * cells.ndim
        ]
        near = apply_along_axes([s.T for s in self._shares], inner).ravel()
        if form.flagged:
            near = np.append(near, weighed[-1])
        return form.outside * weighed.sum() + (form.inside - form.outside) * near

    def _split(self, flat: Array) -> Array:
        return flat[:-1] if self.form.flagged else flat

    @property
    def _width(self) -> int:
        return self.form.steps + 1 + 2 * self.form.reach

    @cached_property
    def _multiplicity(self) -> Array:
        """Number of cells that each report stands for."""
        cells = np.ones(self._width**self.form.dimension + self.form.flagged)
        if self.form.flagged:
            cells[-1] = len(self.form.offsets)
        return cells

    @cached_property
    def _shares(self) -> list[Array]:
        return [cell_shares(self.form.steps, self.spacings)] * self.form.dimension

    @cached_property
    def _sizes(self) -> list[int]:
        # No window that starts at a record's cell leaves the padded cells: nothing wraps around.
        return [scipy.fft.next_fast_len(self._width, real=True)] * self.form.dimension

    @cached_property
    def _transform(self) -> Array:
        window = np.zeros(self._sizes)
        window[tuple(self.form.offsets.T)] = 1.0
        return np.asarray(scipy.fft.rfftn(window).real)

    def _convolve(self, cells: Array) -> Array:
        wide = scipy.fft.irfftn(scipy.fft.rfftn(cells, self._sizes) * self._transform, self._sizes)
        return np.asarray(wide[tuple(slice(length) for length in cells.shape)])


def apply_along_axes(matrices: Sequence[Array], tensor: Array) -> Array:
    """Apply one matrix along each axis."""

    def one(result: Array, matrix: Array) -> Array:
        # The first axis goes to the end: after all matrices, axes are in order again.
        return np.asarray(np.tensordot(result, matrix, axes=(0, 1)))

    return reduce(one, matrices, tensor)


def window_channel(release: Release, name: str, form: WindowForm, most: int) -> GridChannel:
    """Count windows' reports of a column, cell by cell."""
    spacings = min(most, form.steps)
    width = form.steps + 1 + 2 * form.reach
    sizes = (width,) * form.dimension

    def number(reports: Array) -> Array:
        numbers = np.ravel_multi_index(tuple((form.cells(reports) + form.reach).T), sizes)
        return (
            np.where(reports[:, -1] == 1, width**form.dimension, numbers)
            if form.flagged
            else numbers
        )

    counts = _count(release, name, number, width**form.dimension + form.flagged)
    if form.shape == "ball":
        return BallChannel(counts, form, spacings)
    near = np.abs(np.arange(width)[:, None] - np.arange(form.steps + 1) - form.reach) <= form.reach
    law = np.where(near, form.inside, form.outside) @ cell_shares(form.steps, spacings)
    return ProductChannel(counts, [law] * form.dimension)


def noise_channel(release: Release, name: str, form: NoiseForm, most: int) -> ProductChannel:
    r"""Count noisy points of a column, in bins as wide as the nodes' spacing, and in two tails.

    Beyond the domain, Laplace densities $e^{−|y − x|/b}$ of any two records have the same ratio wherever
    the report is: a tail loses no information.
    """
    dimension, spacings = release.schema.point_column(name).domain.dimension, most
    laplace = form.distance == "manhattan"
    reach = 1.0 if laplace else 1.0 + _TAIL * form.scale
    bins = min(_MAX_BINS, round(spacings * reach))
    ends = np.linspace(-reach, reach, bins + 1)
    sizes = (bins + 2,) * dimension

    def number(reports: Array) -> Array:
        return np.ravel_multi_index(tuple(np.searchsorted(ends, reports).T), sizes)

    fine = 4 * spacings  # of the records within a hat
    gap = (ends[:, None] - np.linspace(-1, 1, fine + 1)) / form.scale
    below = (
        np.where(gap < 0, 0.5 * np.exp(gap), 1 - 0.5 * np.exp(-gap))
        if laplace
        else scipy.special.ndtr(gap)
    )
    law = np.diff(below, axis=0, prepend=0.0, append=1.0) @ cell_shares(fine, spacings)
    counts = _count(release, name, number, (bins + 2) ** dimension)
    return ProductChannel(counts, [np.maximum(law, 1e-300)] * dimension)


def _count(release: Release, name: str, number: Callable[[Array], Array], size: int) -> Array:
    counts, split = np.zeros(size), release.randomizer.splits[name]
    for table in release.rows.pieces():
        reports, reported = split.read(table)
        counts += np.bincount(number(reports[reported]), minlength=size)
    return counts


_CHANNELS: dict[tuple[type[Form], str | None], Callable[[Release, str, Any, int], GridChannel]] = {
    (WindowForm, None): window_channel,
    (NoiseForm, "manhattan"): noise_channel,
    (NoiseForm, "squared_euclidean"): noise_channel,
}


def serves_grid(randomizer: Randomizer) -> bool:
    """Say whether reports are of one column of points, with noise or windows in few coordinates."""
    if randomizer.joint is not None or len(randomizer.mechanisms) != 1:
        return False
    ((name, mechanism),) = randomizer.mechanisms.items()
    column = randomizer.schema.columns[name]
    if column.domain is None or column.declares_codes or column.image_shape is not None:
        return False
    form = mechanism.point_form(column)
    few = mechanism.report_domain(column.domain).dimension in MAX_SPACINGS
    return few and (type(form), getattr(form, "distance", None)) in _CHANNELS


@dataclass(frozen=True, eq=False)
class StackedChannel:
    """Reports of several releases about one density: their likelihoods multiply."""

    channels: Sequence[GridChannel]  # channels on one grid

    @property
    def spacings(self) -> int:
        """See `GridChannel`."""
        return self.channels[0].spacings

    @cached_property
    def counts(self) -> Array:
        """See `GridChannel`: release after release."""
        return np.concatenate([channel.counts for channel in self.channels])

    def forward(self, weights: Array) -> Array:
        """See `GridChannel`."""
        return np.concatenate([channel.forward(weights) for channel in self.channels])

    def back(self, ratios: Array) -> Array:
        """See `GridChannel`."""
        ends = np.cumsum([channel.counts.size for channel in self.channels])[:-1]
        parts = zip(self.channels, np.split(ratios, ends), strict=True)
        return reduce(np.add, [channel.back(part) for channel, part in parts])


def grid_channel(releases: Sequence[Release], name: str, most: int) -> GridChannel:
    """Build the channel of a column's reports, on a grid of at most `most` spacings per coordinate."""
    forms = [r.randomizer.mechanisms[name].point_form(r.schema.columns[name]) for r in releases]
    most = min(getattr(form, "steps", most) for form in [*forms, None])
    channels = [
        _CHANNELS[type(form), getattr(form, "distance", None)](release, name, form, most)
        for release, form in zip(releases, forms, strict=True)
    ]
    return channels[0] if len(channels) == 1 else StackedChannel(channels)
