r"""References cut into cells: on them a tilt is a table, and its normalizer a finite sum.

Cut every coordinate of a product reference into cells whose probabilities are integers over $2^{64}$,
and let the tilt be constant on the cells' product. Then $Z = \sum_i M_i e^{s_i}$ has finitely many
terms, and it is the normalizer of what is *really* drawn: a cell is drawn by one 64-bit word a
coordinate, exactly with probability $M_i / 2^{64}$, and the place within it is public noise that no
tilt looks at. There is no quadrature, hence no quadrature error: all that is left is the rounding of a
sum of positive floats, a relative $10^{−12}$.

A table of steps costs accuracy of second order: with cells of width $g$ and a tilt of slope $c$, a
Kullback–Leibler divergence of about $(cg)^2/24$. One coordinate gets 16 384 cells, two get 1024 each;
a table of categories gets one for every combination. Where that would be more than a million cells (or
fewer than 256 a continuous coordinate) there is no grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privot.errors import PrivotError
from privot.integral.densities.density import Arrays, Packed
from privot.integral.densities.marginals import Marginal
from privot.integral.densities.references import ProductReference, Reference, require_points
from privot.integral.densities.secure import Floats, Generator, SecureGenerator
from privot.mechanisms import random_words

MOST_CELLS = 2**20
_ONE_AXIS = 2**14
_FEWEST = 256
_WHOLE = 2**64
_BLOCK = 2**16


@dataclass(frozen=True)
class Axis:
    """The cells of one coordinate: `edges` (k + 1,), and integers over 2^64 that add up to 1."""

    marginal: Marginal
    edges: Floats

    @property
    def size(self) -> int:
        """Number of cells k."""
        return len(self.edges) - 1

    @cached_property
    def masses(self) -> NDArray[np.uint64]:
        """The integers M_i (k,), k ≥ 2."""
        shares = self.marginal.mass(self.edges[:-1], self.edges[1:])
        exact = [int(share * _WHOLE) for share in (shares / shares.sum()).tolist()]
        largest = int(np.argmax(shares))
        exact[largest] += _WHOLE - sum(exact)
        if exact[largest] == _WHOLE:  # no 64-bit number: some other cell gets the last word
            exact[largest] -= 1
            exact[largest - 1] += 1
        return np.array(exact, np.uint64)

    @cached_property
    def _ends(self) -> NDArray[np.uint64]:
        return np.cumsum(self.masses[:-1], dtype=np.uint64)

    @cached_property
    def middles(self) -> Floats:
        """The median point of every cell (k,)."""
        return self.marginal.within(self.edges[:-1], self.edges[1:], np.full(self.size, 0.5))

    def draw(self, num: int, place: Floats) -> Floats:
        """Points (num,): a cell by its integer mass, and the point at `place` within it."""
        cell = np.searchsorted(self._ends, random_words(num), side="right")
        low, high = self.edges[cell], self.edges[cell + 1]
        x = self.marginal.within(low, high, place)
        # Rounding must not carry a point over an edge: its cell was drawn exactly.
        return np.clip(x, low, np.nextafter(high, -np.inf))

    def locate(self, x: Floats) -> NDArray[np.int64]:
        """The cells (n,) of points (n,)."""
        return np.searchsorted(self.edges[1:-1], x, side="right").astype(np.int64)


class GridReference(ProductReference):
    """A product reference, drawn as cells and places within them.

    Given a `SecureGenerator`, `sample` draws cells by their integer masses; given any other, which
    never serves a published draw, it samples the marginals themselves.

    Examples:
        >>> from privot.integral.densities.references import StandardNormal
        >>> grid = make_grid(StandardNormal(2))
        >>> grid.shape
        (1024, 1024)
        >>> sum(grid.axes[0].masses.tolist()) == 2**64
        True
    """

    def __init__(self, marginals: Sequence[Marginal], sizes: Sequence[int]) -> None:
        super().__init__(marginals)
        pairs = zip(marginals, sizes, strict=True)
        self.axes = tuple(Axis(marginal, marginal.edges(size)) for marginal, size in pairs)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of cells of each coordinate."""
        return tuple(axis.size for axis in self.axes)

    def sample(self, n: int, generator: Generator, /) -> Floats:
        """Draws (n, dim)."""
        if not isinstance(generator, SecureGenerator):
            return super().sample(n, generator)
        places = [generator.random(n) for _ in self.axes]
        drawn = [axis.draw(n, place) for axis, place in zip(self.axes, places, strict=True)]
        return np.stack(drawn, axis=1)

    def locate(self, x: Floats) -> NDArray[np.int64]:
        """Index (n,) of each point's cell, in C order."""
        parts = [axis.locate(x[:, j]) for j, axis in enumerate(self.axes)]
        return np.asarray(np.ravel_multi_index(tuple(parts), self.shape), np.int64)

    def centers(self) -> Floats:
        """The median point of every cell, (number of cells, dim), in C order."""
        middles = np.meshgrid(*[axis.middles for axis in self.axes], indexing="ij")
        return np.stack([m.ravel() for m in middles], axis=1)

    def mean(self, values: Floats) -> float:
        """Σ M_i v_i / 2^64 of positive values (number of cells,), to a relative 10^−12."""
        table = values.reshape(self.shape)
        for axis in reversed(self.axes):
            table = table @ (axis.masses.astype(np.float64) / _WHOLE)
        return float(table)


@dataclass(frozen=True, repr=False)
class TabulatedTilt:
    """A tilt that is constant on every cell: values (number of cells,), in C order."""

    kind: ClassVar[str] = "table"
    grid: GridReference
    values: Floats

    def __call__(self, x: Floats, /) -> Floats:
        """The values of the points' cells."""
        return self.values[self.grid.locate(x)]

    def pack(self) -> Packed:
        """See `Tilt`: the table; the grid follows from the reference."""
        return {}, {"values": self.values}

    @classmethod
    def unpack(cls, fields: dict[str, Any], arrays: Arrays, reference: Reference) -> Self:
        """See `Tilt`."""
        grid, values = make_grid(reference), arrays["values"]
        if grid is None or values.shape != (math.prod(grid.shape),):
            raise PrivotError("the table does not fit the reference's grid: the model is damaged")
        return cls(grid, values)


def make_grid(reference: Reference) -> GridReference | None:
    """The reference cut into at most 2^20 cells, or None where there is no fitting grid."""
    if isinstance(reference, GridReference):
        return reference
    if reference.marginals is None:
        return None
    sizes = [marginal.num_values for marginal in reference.marginals]
    listed = math.prod(size for size in sizes if size is not None)
    free = sizes.count(None)
    if listed > MOST_CELLS or any(size == 1 for size in sizes):
        return None
    each = min(_ONE_AXIS, int((MOST_CELLS / listed) ** (1 / free) + 1e-9)) if free else 0
    if free and each < _FEWEST:
        return None
    return GridReference(reference.marginals, [each if size is None else size for size in sizes])


def tabulate(grid: GridReference, function: Callable[[Floats], Floats]) -> Floats:
    """Values (number of cells,) of a function of points (n, dim), at the cells' centers."""
    centers = grid.centers()
    parts = [function(centers[i : i + _BLOCK]) for i in range(0, len(centers), _BLOCK)]
    return np.asarray(np.concatenate(parts), np.float64)


def require_inside(reference: Reference, records: object) -> Floats:
    """Records as points (n, dim) within the support, or a refusal that tells nothing of them."""
    points = require_points(records, reference.dim)
    if len(points) == 0:
        raise PrivotError("records are empty: give at least one")
    if not reference.contains(points).all():
        raise PrivotError(
            "records lie outside the reference's support (or are not finite): project them to it "
            "by a public rule, or choose a wider reference"
        )
    return points
