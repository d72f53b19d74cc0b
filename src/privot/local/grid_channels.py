r"""Densities on a grid, and channels, which map a density to the probabilities of reports.

**Density.** A density on $[−1, 1]^d$ is multilinear between the nodes $−1 + 2k/K$, $k ∈ 0 … K$, of each
coordinate. It is a mixture of **hats**, one per node: products over coordinates of triangular densities
of half-width $2/K$ (half a triangle at the ends). The **weight** of a node is the share of its hat. So
the density is continuous, samples do not show the grid, and probabilities are linear in the weights.

**Channels.** The counts of distinct reports are sufficient statistics, and the probabilities of reports
are linear in the weights p: $P(y) = \sum_k A_{yk} p_k$. The matrix A is never formed. For windows that
are balls its product is a convolution, computed by fast Fourier transforms; for mechanisms that treat
coordinates independently it is a product of one small matrix per coordinate. Weights are flat arrays of
the nodes in C order; if values may be missing, their share is last.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import scipy
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.local.model import Condition, Sampler
from privot.mechanisms.forms import Form, NoiseForm, WindowForm
from privot.randomizer import Counts, Randomizer
from privot.randomizer.reports.counts import grid_form
from privot.schema import Domain, Schema
from privot.schema.domains import Array, from_unit

# Conditional sampling: least records drawn at a time, and limits of all draws before it gives up.
_MIN_DRAWS, _MAX_DRAWS, _MAX_DRAWS_PER_ROW = 2**14, 2**22, 200


def allowed_nodes(domain: Domain, spacings: int) -> NDArray[np.bool_]:
    """Return the mask (K+1, …, K+1) of nodes within one of K spacings of the unit domain.

    Examples:
        >>> from privot.schema import Box
        >>> allowed_nodes(Box((0.0,), (9.0,)), 2)
        array([ True,  True,  True])
    """
    axis = np.linspace(-1, 1, spacings + 1)
    grid = np.stack(np.meshgrid(*[axis] * domain.dimension, indexing="ij"), axis=-1)
    points = grid.reshape(-1, domain.dimension)
    outside = np.abs(domain.unit.project(points) - points).max(axis=1)
    return np.asarray((outside <= 2 / spacings).reshape(grid.shape[:-1]))


@dataclass(frozen=True, eq=False)
class GridDensity:
    """Density that is multilinear between the nodes of a grid, with a share of missing values."""

    weights: Array  # weights of the nodes (K+1, …, K+1); their sum and `missing` add up to 1
    missing: float = 0.0  # share of missing values

    @classmethod
    def of(cls, flat: Array, shape: tuple[int, ...]) -> Self:
        """Build a density from flat weights, for a grid of this shape."""
        nodes = math.prod(shape)
        return cls(flat[:nodes].reshape(shape), float(flat[nodes:].sum()))

    @property
    def flat(self) -> Array:
        """Flat weights, with the share of missing values last if it is positive."""
        weights = self.weights.ravel()
        return np.append(weights, self.missing) if self.missing else weights

    def sample(self, num_rows: int, rng: np.random.Generator) -> Array:
        """Draw points (num_rows, d) in unit coordinates; a missing point is a row of NaN."""
        last = self.weights.shape[0] - 1
        shares = np.append(self.weights.ravel(), self.missing)
        ends = np.cumsum(shares)
        drawn = np.searchsorted(ends, rng.random(num_rows) * ends[-1], side="right")
        drawn = np.minimum(drawn, np.flatnonzero(shares)[-1])
        absent = drawn == self.weights.size
        nodes = np.unravel_index(np.where(absent, 0, drawn), self.weights.shape)
        places = np.stack(nodes, axis=1) + rng.triangular(-1, 0, 1, (num_rows, self.weights.ndim))
        places = last - np.abs(last - np.abs(places))  # points beyond an end are reflected
        points: Array = places * (2 / last) - 1
        points[absent] = np.nan
        return points


def draw_given(
    draw: Callable[[int], pa.Table], schema: Schema, where: Condition, num_rows: int
) -> pa.Table:
    """Draw records whose only column has an allowed code, by rejection from `draw(number of rows)`.

    Raises:
        PrivotError: if hardly any record has an allowed code.
    """
    ((name, codes),) = where.items()
    accepted, drawn = [draw(0)], 0
    while sum(part.num_rows for part in accepted) < num_rows:
        if drawn > _MAX_DRAWS + _MAX_DRAWS_PER_ROW * num_rows:
            raise PrivotError(f"where {dict(where)} has hardly any probability: relax it")
        part = draw(max(_MIN_DRAWS, num_rows))
        drawn += part.num_rows
        accepted.append(part.filter(np.isin(schema.coded[name].encode_codes(name, part), codes)))
    return pa.concat_tables(accepted).slice(0, num_rows).combine_chunks()


@dataclass(frozen=True, eq=False)
class GridSampler(Sampler):
    """Sampler of one column of points from a density on a grid; conditions are met by rejection."""

    density: GridDensity  # density in unit coordinates
    name: str  # name of the column
    randomizer: Randomizer  # randomizer of the column's reports
    kind: ClassVar[str] = "grid"

    def records(self, num_rows: int, rng: np.random.Generator, where: Condition) -> pa.Table:
        if not where:
            return self._draw(num_rows, rng)
        return draw_given(lambda n: self._draw(n, rng), self.randomizer.schema, where, num_rows)

    def _draw(self, num_rows: int, rng: np.random.Generator) -> pa.Table:
        """Draw records without a condition."""
        column = self.randomizer.schema.point_column(self.name)
        drawn = self.density.sample(num_rows, rng)
        absent = np.isnan(drawn).any(axis=1)
        drawn[absent] = 0.0
        units = self.randomizer.mechanisms[self.name].places(drawn, column.domain)
        points = from_unit(column.domain, units)
        points[absent] = np.nan
        return pa.table(column.decode_points(self.name, points))

    def fields(self) -> dict[str, Any]:
        return {"column": self.name}

    def arrays(self) -> dict[str, Array]:
        return {"weights": self.density.weights, "missing": np.array([self.density.missing])}

    @classmethod
    def build(
        cls, randomizer: Randomizer, fields: Mapping[str, Any], arrays: Mapping[str, Array]
    ) -> Self:
        density = GridDensity(arrays["weights"], float(arrays["missing"][0]))
        return cls(density, fields["column"], randomizer)


def cell_shares(steps: int, spacings: int) -> Array:
    """Compute the share of each of K + 1 hats that rounds to each of N + 1 record cells (N+1, K+1).

    Record cells are centered at −1 + 2j/N, with N `steps`; K is `spacings`. A share is an integral of
    the hat.

    Examples:
        >>> cell_shares(2, 2)
        array([[0.75 , 0.125, 0.   ],
               [0.25 , 0.75 , 0.25 ],
               [0.   , 0.125, 0.75 ]])
    """
    ends = np.concatenate([[0.0], np.arange(steps) + 0.5, [float(steps)]]) * (spacings / steps)
    gap = np.clip(ends[:, None] - np.arange(spacings + 1), -1.0, 1.0)
    below = 0.5 + gap - 0.5 * gap * np.abs(gap)  # share of a whole triangle below each cell end
    shares = np.diff(below, axis=0)
    return np.asarray(shares / shares.sum(axis=0))


class GridChannel(ABC):
    """Counts of m distinct reports, and their probabilities as a linear function of k weights."""

    spacings: int  # K: a coordinate has K + 1 nodes
    counts: Array  # number of people who sent each report (m,)

    @abstractmethod
    def forward(self, weights: Array) -> Array:
        """Compute the probabilities A p (m,), all positive, for weights p (k,)."""

    @abstractmethod
    def back(self, ratios: Array) -> Array:
        """Compute $A^⊤ x$ (k,) for numbers x (m,)."""


@dataclass(frozen=True, eq=False)
class ProductChannel(GridChannel):
    """Channel of noise or windows that are independent between coordinates."""

    counts: Array  # counts of all reports, flat in C order
    matrices: Sequence[Array]  # for each coordinate, P(report | node) as (reports, nodes)

    @cached_property
    def spacings(self) -> int:  # type: ignore[override]  # a field of other channels
        return self.matrices[0].shape[1] - 1

    def forward(self, weights: Array) -> Array:
        return apply_along_axes(self.matrices, weights).ravel()

    def back(self, ratios: Array) -> Array:
        return apply_along_axes([matrix.T for matrix in self.matrices], ratios).ravel()


@dataclass(frozen=True, eq=False)
class BallChannel(GridChannel):
    """Channel of windows that are balls; values may be missing."""

    counts: Array  # counts of all report cells, flat, then of reports flagged as missing, if any
    form: WindowForm  # size and probabilities of the windows
    spacings: int  # see `GridChannel`

    def forward(self, weights: Array) -> Array:
        form = self.form
        cells = apply_along_axes(self._cell_shares, self._without_missing(weights))
        in_window = np.maximum(self._convolve(np.pad(cells, form.radius)), 0.0).ravel()
        if form.flagged:
            in_window = np.append(in_window, weights[-1]) * self._multiplicity
        outside = form.outside * weights.sum() * self._multiplicity
        return outside + (form.inside - form.outside) * in_window

    def back(self, ratios: Array) -> Array:
        # Windows are symmetric, so the transpose of their convolution is the same convolution.
        form = self.form
        weighted = ratios * self._multiplicity
        cells = self._without_missing(weighted).reshape((self._width,) * form.dimension)
        inside = (slice(form.radius, form.radius + form.steps + 1),) * cells.ndim
        transposed = [shares.T for shares in self._cell_shares]
        in_window = apply_along_axes(transposed, self._convolve(cells)[inside]).ravel()
        if form.flagged:
            in_window = np.append(in_window, weighted[-1])
        return form.outside * weighted.sum() + (form.inside - form.outside) * in_window

    def _without_missing(self, flat: Array) -> Array:
        """Remove the entry of missing values, which is last, if values may be missing."""
        return flat[:-1] if self.form.flagged else flat

    @property
    def _width(self) -> int:
        """Number of report cells per coordinate: the record cells and a window's radius on each side."""
        return self.form.steps + 1 + 2 * self.form.radius

    @cached_property
    def _multiplicity(self) -> Array:
        """Number of cells that each report stands for: one, or a window's for the flag of missing."""
        cells = np.ones(self._width**self.form.dimension + self.form.flagged)
        if self.form.flagged:
            cells[-1] = len(self.form.offsets)
        return cells

    @cached_property
    def _cell_shares(self) -> list[Array]:
        """For each coordinate, the share of each hat in each record cell."""
        return [cell_shares(self.form.steps, self.spacings)] * self.form.dimension

    @cached_property
    def _padded_shape(self) -> list[int]:
        """Shape of the arrays that are convolved, with sizes for which the transform is fast."""
        # Windows around record cells do not leave the padded array, so nothing wraps around.
        return [scipy.fft.next_fast_len(self._width, real=True)] * self.form.dimension

    @cached_property
    def _window_transform(self) -> Array:
        """Fourier transform of the window's indicator, which is real because a ball is symmetric."""
        window = np.zeros(self._padded_shape)
        window[tuple(self.form.offsets.T)] = 1.0
        return np.asarray(scipy.fft.rfftn(window).real)

    def _convolve(self, cells: Array) -> Array:
        """Sum `cells` over the window around each cell; the result has the same shape."""
        product = scipy.fft.rfftn(cells, self._padded_shape) * self._window_transform
        sums = scipy.fft.irfftn(product, self._padded_shape)
        return np.asarray(sums[tuple(slice(length) for length in cells.shape)])


@dataclass(frozen=True, eq=False)
class StackedChannel(GridChannel):
    """Channel of several releases about one density; their reports are concatenated."""

    channels: Sequence[GridChannel]  # the releases' channels, on the same grid

    @cached_property
    def spacings(self) -> int:  # type: ignore[override]  # a field of other channels
        return self.channels[0].spacings

    @cached_property
    def counts(self) -> Array:  # type: ignore[override]  # a field of other channels
        return np.concatenate([channel.counts for channel in self.channels])

    def forward(self, weights: Array) -> Array:
        return np.concatenate([channel.forward(weights) for channel in self.channels])

    def back(self, ratios: Array) -> Array:
        ends = np.cumsum([channel.counts.size for channel in self.channels])[:-1]
        parts = zip(self.channels, np.split(ratios, ends), strict=True)
        return reduce(np.add, [channel.back(part) for channel, part in parts])


def apply_along_axes(matrices: Sequence[Array], values: Array) -> Array:
    """Apply the i-th matrix along the i-th axis of an array in C order, for every axis."""

    def apply_to_first(result: Array, matrix: Array) -> Array:
        # The first axis moves to the end, so axes are in order again after all matrices.
        return np.asarray(np.tensordot(result, matrix, axes=(0, 1)))

    shape = [matrix.shape[1] for matrix in matrices]
    return reduce(apply_to_first, matrices, values.reshape(shape))


def window_channel(counts: Counts, form: WindowForm, spacings: int) -> GridChannel:
    """Build the channel of a column reported by windows, for at most `form.steps` spacings."""
    people = counts.dense(form.num_answers())
    if form.shape == "ball":
        return BallChannel(people, form, spacings)
    width = form.shape_of_cells[0]
    distances = np.abs(np.arange(width)[:, None] - np.arange(form.steps + 1) - form.radius)
    report_given_cell = np.where(distances <= form.radius, form.inside, form.outside)
    law = report_given_cell @ cell_shares(form.steps, spacings)
    return ProductChannel(people, [law] * form.dimension)


def noise_channel(counts: Counts, form: NoiseForm, spacings: int) -> ProductChannel:
    """Build the channel of a column reported with noise, whose reports are counted in bins."""
    ((name, mechanism),) = counts.randomizer.mechanisms.items()
    dimension = mechanism.report_domain(counts.schema.point_column(name).domain).dimension
    # The probability of a bin, given a hat, is summed over record cells four times as fine as the grid.
    ends, fine = form.ends(dimension), 4 * spacings
    gap = (ends[:, None] - np.linspace(-1, 1, fine + 1)) / form.scale
    if form.distance == "manhattan":
        below = np.where(gap < 0, 0.5 * np.exp(gap), 1 - 0.5 * np.exp(-gap))
    else:
        below = scipy.special.ndtr(gap)
    law = np.diff(below, axis=0, prepend=0.0, append=1.0) @ cell_shares(fine, spacings)
    people = counts.dense((len(ends) + 1) ** dimension)
    # Far from a node, probabilities underflow to 0, whose logarithm would be infinite.
    return ProductChannel(people, [np.maximum(law, 1e-300)] * dimension)


# Functions that build a channel, by the type of the mechanism's form.
_CHANNELS: dict[type[Form], Callable[[Counts, Any, int], GridChannel]] = {
    WindowForm: window_channel,
    NoiseForm: noise_channel,
}


def grid_channel(parts: Sequence[Counts], max_spacings: int) -> GridChannel:
    """Build the channel of one column's reports from the counts of one or more releases.

    The grid has `max_spacings` spacings, or as many as the coarsest window has steps if these are fewer.
    All randomizers have a `grid_form`.
    """
    forms = [(counts, grid_form(counts.randomizer)) for counts in parts]
    spacings = min(max_spacings, *(getattr(form, "steps", max_spacings) for _, form in forms))
    channels = [_CHANNELS[type(form)](counts, form, spacings) for counts, form in forms if form]
    return channels[0] if len(channels) == 1 else StackedChannel(channels)
