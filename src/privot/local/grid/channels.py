r"""Reports counted on a grid, and how likely each is under a density on a grid.

How many people sent each report is all that a likelihood needs of a release, and it is linear in the
density's weights p: $P(y) = \sum_k A_{yk} p_k$. Nobody ever writes A down: windows that are balls are a
convolution, by fast Fourier transform; whatever is independent by coordinate is a product of one small
matrix a coordinate.

Weights are flat, those of the nodes first; where values may be missing, their share is the last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, Protocol

import numpy as np
import scipy

from privot.local.grid.density import cell_shares
from privot.mechanisms.forms import Form, NoiseForm, WindowForm
from privot.release import Release
from privot.schema import Array

_TAIL = 6.0  # of Gaussian noise, in standard deviations
_MOST_BINS = 1024


class GridChannel(Protocol):
    """How reports depend on the weights of a grid."""

    @property
    def spacings(self) -> int:
        """K: a coordinate has K + 1 nodes."""

    @property
    def counts(self) -> Array:
        """How many people sent each report (m,)."""

    def forward(self, weights: Array) -> Array:
        """P(report) of each (m,), > 0, of weights (k,)."""

    def back(self, ratios: Array) -> Array:
        """The transpose: (k,) of numbers (m,)."""


@dataclass(frozen=True, eq=False)
class ProductChannel:
    """Noise, or windows, that are independent by coordinate.

    Arguments:
        counts: Of all reports, flat.
        matrices: For each coordinate, P(report | node) as (reports, nodes).
    """

    counts: Array
    matrices: Sequence[Array]

    @property
    def spacings(self) -> int:
        """See `GridChannel`."""
        return self.matrices[0].shape[1] - 1

    def forward(self, weights: Array) -> Array:
        """See `GridChannel`."""
        return along(self.matrices, weights.reshape([a.shape[1] for a in self.matrices])).ravel()

    def back(self, ratios: Array) -> Array:
        """See `GridChannel`."""
        turned = [a.T for a in self.matrices]
        return along(turned, ratios.reshape([a.shape[1] for a in turned])).ravel()


@dataclass(frozen=True, eq=False)
class BallChannel:
    """Windows that are balls, of values that may be missing.

    Arguments:
        counts: Of all report cells, flat; then of those that say that the value is missing.
        form: The windows.
        spacings: K: a coordinate has K + 1 nodes.
    """

    counts: Array
    form: WindowForm
    spacings: int

    def forward(self, weights: Array) -> Array:
        """See `GridChannel`."""
        form = self.form
        inner = along(
            self._shares, self._split(weights).reshape((self.spacings + 1,) * form.dimension)
        )
        near = np.maximum(self._convolve(np.pad(inner, form.reach)), 0.0).ravel()
        if form.flagged:
            near = np.append(near, weights[-1]) * self._multiple
        return form.outside * weights.sum() * self._multiple + (form.inside - form.outside) * near

    def back(self, ratios: Array) -> Array:
        """See `GridChannel`."""
        form = self.form
        weighed = ratios * self._multiple
        cells = self._split(weighed).reshape((self._width,) * form.dimension)
        inner = self._convolve(cells)[
            (slice(form.reach, form.reach + form.steps + 1),) * cells.ndim
        ]
        near = along([s.T for s in self._shares], inner).ravel()
        if form.flagged:
            near = np.append(near, weighed[-1])
        return form.outside * weighed.sum() + (form.inside - form.outside) * near

    def _split(self, flat: Array) -> Array:
        return flat[:-1] if self.form.flagged else flat

    @property
    def _width(self) -> int:
        return self.form.steps + 1 + 2 * self.form.reach

    @cached_property
    def _multiple(self) -> Array:
        """How many cells each report stands for."""
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


def along(matrices: Sequence[Array], tensor: Array) -> Array:
    """One matrix applied along each axis."""

    def one(result: Array, matrix: Array) -> Array:
        # The axis that comes first goes to the end: after all, they are in order again.
        return np.asarray(np.tensordot(result, matrix, axes=(0, 1)))

    return reduce(one, matrices, tensor)


def window_channel(release: Release, name: str, form: WindowForm, most: int) -> GridChannel:
    """Windows' reports of a column, counted cell by cell."""
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
    r"""Noisy points of a column, counted in bins as wide as the nodes are apart, and in two tails.

    Beyond the domain, Laplace's density $e^{−|y − x|/b}$ tells all records apart in the same way,
    wherever the report is: nothing is lost in a tail.
    """
    dimension, spacings = release.schema.point_column(name).domain.dimension, most
    laplace = form.distance == "manhattan"
    reach = 1.0 if laplace else 1.0 + _TAIL * form.scale
    bins = min(_MOST_BINS, round(spacings * reach))
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
    counts = np.zeros(size)
    for piece in release.pieces():
        reports, reported = piece.reports(name)
        counts += np.bincount(number(reports[reported]), minlength=size)
    return counts


_CHANNELS: dict[tuple[type[Form], str | None], Callable[[Release, str, Any, int], GridChannel]] = {
    (WindowForm, None): window_channel,
    (NoiseForm, "manhattan"): noise_channel,
    (NoiseForm, "squared_euclidean"): noise_channel,
}


def has_grid(form: Form) -> bool:
    """Whether there is a channel of a grid for reports of this form."""
    return (type(form), getattr(form, "distance", None)) in _CHANNELS


@dataclass(frozen=True, eq=False)
class StackedChannel:
    """Reports of several releases about one density: their likelihoods multiply.

    Arguments:
        channels: On one grid.
    """

    channels: Sequence[GridChannel]

    @property
    def spacings(self) -> int:
        """See `GridChannel`."""
        return self.channels[0].spacings

    @cached_property
    def counts(self) -> Array:
        """See `GridChannel`: one release's after the other's."""
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
    """The reports of a column, on a grid of at most so many spacings a coordinate."""
    forms = [r.randomizer.mechanisms[name].point_form(r.schema.columns[name]) for r in releases]
    most = min(getattr(form, "steps", most) for form in [*forms, None])
    channels = [
        _CHANNELS[type(form), getattr(form, "distance", None)](release, name, form, most)
        for release, form in zip(releases, forms, strict=True)
    ]
    return channels[0] if len(channels) == 1 else StackedChannel(channels)
